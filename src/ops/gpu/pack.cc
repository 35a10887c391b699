// Weights on their way to the device: read row by row on all threads, sent in pieces.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/op_gpu.h"
#include "ops/weights.h"

namespace prefix::ops {
namespace {

// Weights are read and sent in pieces of about this size.
constexpr int64_t kPackBytes = int64_t{32} << 20;

}  // namespace

// Row-major [n rounded up to 32][k_padded]: 32 rows take as many bytes as a panel of the CPU, so
// that PackedWeights::panel_of() is right here too. Of two sources, blocks of 32 rows take turns.
PackedWeights GpuDevice::pack_sources(WeightFormat format, int64_t n, int64_t k,
                                      std::span<const WeightSource* const> sources,
                                      const CalibrationRows*) {
  PREFIX_CHECK(format == context_.options.types.weights);
  PackedWeights shape = sources.size() == 1 ? PackedWeights::of_shape(format, n, k)
                                            : PackedWeights::of_gated_shape(format, n, k);
  std::byte* const data = allocate(shape.bytes());
  const size_t row_bytes = static_cast<size_t>(shape.k_padded) * weight_bytes(shape.format);
  const auto take_turns = static_cast<int64_t>(sources.size());
  try {
    const int64_t rows = shape.panels() * kPanelColumns;
    const int64_t step = std::max<int64_t>(1, kPackBytes / static_cast<int64_t>(row_bytes));
    std::vector<std::byte> piece(static_cast<size_t>(std::min(step, rows)) * row_bytes);
    std::vector<RowReader> readers(static_cast<size_t>(threads_->count()),
                                   RowReader(shape.format, shape.k));
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      threads_->run(count, [&](int64_t i, int worker) {
        std::byte* const out = piece.data() + static_cast<size_t>(i) * row_bytes;
        std::memset(out, 0, row_bytes);
        const int64_t panel = (begin + i) / kPanelColumns;
        const int64_t row = panel / take_turns * kPanelColumns + (begin + i) % kPanelColumns;
        if (row >= n) return;
        readers[static_cast<size_t>(worker)].read(*sources[static_cast<size_t>(panel % take_turns)],
                                                  row, out);
      });
      upload(data + static_cast<size_t>(begin) * row_bytes, piece.data(),
             static_cast<size_t>(count) * row_bytes);
    }
  } catch (...) {
    release(data, shape.bytes());
    throw;
  }
  shape.data = data;
  return shape;
}

}  // namespace prefix::ops
