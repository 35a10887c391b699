#include "model/row_pieces.h"

namespace prefix {

void RowPieces::run_in(Pass pass) const {
  for (const OfLayer& one : pieces_) {
    pass.layer = one.layer;
    one.piece(pass, layers_[one.layer], weights_[one.layer]);
  }
}

void RowPieces::run_blocks() {
  const Clock::time_point start = Clock::now();
  pass_.device.over_blocks(pass_.rows(), [&](const ops::RowBlock& block) {
    BlockWorker& worker = workers_[static_cast<size_t>(block.worker)];
    worker.buffers->begin_at(pass_.buffers, block.first);
    run_in({block.device, pass_.step, pass_.config, pass_.rotations, *worker.buffers, worker.times,
            pass_.adapters, 0, block.first, block.rows});
  });
  // Of the time that all of it took each kind has the share that it had on the threads.
  int64_t gemm = 0, other = 0;
  for (BlockWorker& worker : workers_) {
    gemm += worker.times.gemm_ns;
    other += worker.times.other_ns;
    worker.times = {};
  }
  const int64_t all = ns_since(start);
  const double share =
      static_cast<double>(gemm) / static_cast<double>(std::max<int64_t>(gemm + other, 1));
  const auto of_gemm = static_cast<int64_t>(share * static_cast<double>(all));
  pass_.times.gemm_ns += of_gemm;
  pass_.times.other_ns += all - of_gemm;
}

void RowPieces::run() {
  if (!pieces_.empty() && pass_.rows() > 0) {
    // The rows that are kept may be too few for blocks.
    if (workers_.empty() || pass_.device.sizes().block_rows(pass_.rows()) == 0)
      run_in(pass_);
    else
      run_blocks();
  }
  pieces_.clear();
}

}  // namespace prefix
