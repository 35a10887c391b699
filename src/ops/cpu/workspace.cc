#include "ops/cpu/workspace.h"

#include <algorithm>

#include "ops/cpu/attention_memory.h"
#include "ops/cpu/context.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/quantise.h"
#include "ops/cpu/scan_units.h"
#include "ops/cpu/wide_panels.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

class Needs {
 public:
  Needs(const ReserveShape& shape, const NumericTypes& types, const KernelTable& kernels,
        int64_t threads)
      : shape_(shape), types_(types), kernels_(kernels), threads_(threads) {}

  size_t partials() const {
    return std::max({max_partial_bytes(shape_, threads_), quantised(), gates(), convolution()});
  }
  size_t scratch() const { return std::max({attention_task(), row_in_floats(), states()}); }
  size_t wide() const {
    if (types_.weights != WeightFormat::kBf16 || kernels_.gemm.tile_wide == nullptr) return 0;
    return WidePanels::bytes(std::max({max_k_block(kernels_.gemm, act_bytes(), widest()),
                                       shape_.kv.d_padded(), int64_t{kKeyBlock}}));
  }
  // Experts, recurrences and heads go over all rows together.
  size_t worker_device() const {
    if (threads_ == 1 || shape_.block == 0) return 0;
    return wide() + quantised_rows(shape_.block, row_bytes(shape_.widest)) +
           (types_.int8 != 0 ? floats(shape_.widest) : 0);
  }

 private:
  static size_t floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }
  size_t act_bytes() const { return compute_bytes(compute_type_of(types_, kernels_)); }
  bool whole_numbers() const { return types_.blocks || types_.int8 != 0; }
  int64_t widest() const { return std::max(shape_.widest, shape_.expert_widest); }

  // Of a row of x in whole numbers.
  size_t row_bytes(int64_t k) const {
    if (types_.blocks) return block_row_bytes(k);
    return types_.int8 == 0 ? 0 : QuantisedRows::row_bytes(k, kernels_.gemm.int8_operand_bytes());
  }
  // Of a product: arrays end with whole lines.
  static size_t quantised_rows(int64_t rows, size_t row) {
    return row == 0 ? 0 : static_cast<size_t>(rows) * row + 2 * 64;
  }
  size_t quantised() const {
    if (!whole_numbers()) return 0;
    const size_t two_terms = 2 * row_bytes(shape_.hidden);  // of a head
    const size_t alone = quantised_rows(shape_.rows, std::max(row_bytes(shape_.widest), two_terms));
    // Each row may be with experts that no other row has.
    const auto slots = static_cast<size_t>(shape_.rows * shape_.experts);
    return std::max(alone, slots * quantised_rows(1, row_bytes(shape_.expert_widest)));
  }
  size_t gates() const { return floats(shape_.rows * shape_.recurrent.gates); }
  // Stored states that rows begin with lie in the pool.
  size_t convolution() const {
    const RecurrentShape& r = shape_.recurrent;
    if (r.channels == 0) return 0;
    const int64_t stored =
        std::min(shape_.rows, shape_.pages / std::max<int64_t>(1, r.state_pages));
    return floats(r.channels * (r.width + 1 + stored * (r.width - 1)));
  }
  size_t attention_task() const {
    if (shape_.kv.kv_heads == 0) return 0;
    const SoftmaxStates states = largest_states(shape_);
    return TaskMemory(PackedRow(shape_.kv, act_bytes(), kernels_.gemm), states.rows, states)
        .bytes();
  }
  // What is normed with its gate, or made whole numbers of.
  size_t row_in_floats() const {
    return whole_numbers() || shape_.recurrent.heads > 0 ? floats(widest()) : 0;
  }
  size_t states() const {
    const RecurrentShape& r = shape_.recurrent;
    if (r.heads == 0) return 0;
    const Unit unit = Units(r.heads, r.columns, threads_)[0];
    const int64_t line = unit_line(unit.size, kernels_.scan.lanes);
    return floats(kNestedStates * unit.heads * r.lines * line);
  }

  const ReserveShape& shape_;
  const NumericTypes& types_;
  const KernelTable& kernels_;
  const int64_t threads_;
};

}  // namespace

CpuWorkspace cpu_workspace(const ReserveShape& shape, const NumericTypes& types,
                           const KernelTable& kernels, int64_t threads) {
  const Needs needs(shape, types, kernels, threads);
  return {needs.partials(), needs.scratch(), needs.wide(), needs.worker_device()};
}

}  // namespace prefix::ops
