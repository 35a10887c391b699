#include "ops/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/status.h"
#include "ops/cpu/pair_task.h"
#include "ops/cpu/quantise.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

// Rows of x that a task turns into whole numbers.
constexpr int64_t kQuantisedRows = 8;
// Tasks per thread: enough to even out a slow core, few enough to reuse the rows of x.
constexpr int64_t kTasksPerThread = 8;

struct Plan {
  int64_t row_block;  // rows per task
  int64_t row_blocks;
  int64_t k_block;     // multiple of 32
  int64_t pairs;       // panel pairs in all
  int64_t pair_block;  // panel pairs per task
  int64_t pair_blocks;
};

// `products`: how many share the threads.
Plan make_plan(const CpuContext& context, const PackedWeights& w, int64_t rows, int64_t products) {
  Plan plan{};
  const GemmKernels& gemm = context.kernels->gemm;
  const int64_t most = std::min(gemm.row_block, kMaxRowBlock / w.terms);
  plan.row_block = round_up(ceil_div(rows, ceil_div(rows, most)), gemm.row_step);
  plan.row_block = std::min(plan.row_block, most);
  plan.row_blocks = ceil_div(rows, plan.row_block);
  const int64_t max_k = gemm.k_block_bytes / static_cast<int64_t>(context.operand_bytes(w.format));
  plan.k_block = round_up(ceil_div(w.k_padded, ceil_div(w.k_padded, max_k)), kStepK);
  plan.pairs = ceil_div(w.panels(), 2);
  const int64_t tasks = context.threads->count() == 1
                            ? plan.row_blocks
                            : ceil_div(context.threads->count() * kTasksPerThread, products);
  plan.pair_block = std::max<int64_t>(1, plan.pairs * plan.row_blocks / tasks);
  plan.pair_block = std::min(plan.pair_block, plan.pairs);
  plan.pair_blocks = ceil_div(plan.pairs, plan.pair_block);
  return plan;
}

// A product and its tasks, which follow those of the products before it.
struct CutProduct : ReadyProduct {
  Plan plan;
  int64_t first_task;
  int64_t first_row;  // of all products in whole numbers

  int64_t end_task() const { return first_task + plan.row_blocks * plan.pair_blocks; }
};

void clear_padding(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                   int64_t rows) {
  if (w.k == w.k_padded) return;
  const size_t bytes = context.act_bytes();
  for (int64_t r = 0; r < rows; ++r) {
    std::memset(x.data + static_cast<size_t>(r * x.ld + w.k) * bytes, 0,
                static_cast<size_t>(w.k_padded - w.k) * bytes);
  }
}

// `products`: how many run at the same time.
CutProduct cut(const CpuContext& context, const GemmProduct& product, int64_t products,
               int64_t first_task) {
  const PackedWeights& w = *product.w;
  if (!is_whole(w.format)) {
    PREFIX_CHECK(w.format == context.types.weights);
    PREFIX_CHECK(product.x.ld >= w.k_padded);
    clear_padding(context, w, product.x, product.rows);
  }
  for (const LowRankRows& range : product.output.thin) {
    const PackedWeights& b = range.matrices->b;
    PREFIX_CHECK(b.format == context.types.weights && b.panels() == w.panels());
    PREFIX_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= product.rows);
    PREFIX_CHECK(product.output.thin_x.ld >= b.k_padded);
    clear_padding(context, b, from_row(product.output.thin_x, range.begin, context.act_bytes()),
                  range.end - range.begin);
  }
  return {{&product, {}, {}}, make_plan(context, w, product.rows, products), first_task, 0};
}

// Of all products in whole numbers: their rows, on all threads together.
void quantise(const CpuContext& context, std::span<CutProduct> cuts) {
  size_t bytes = 0;
  int64_t rows = 0;
  const int64_t size = context.kernels->gemm.int8_operand_bytes();
  const auto bytes_of = [size](const GemmProduct& product) {
    return product.w->format == WeightFormat::kInt8
               ? QuantisedRows::bytes(*product.w, product.rows, size)
               : block_rows_bytes(*product.w, product.rows);
  };
  for (CutProduct& cut : cuts) {
    cut.first_row = rows;
    if (!is_whole(cut.product->w->format)) continue;
    bytes += bytes_of(*cut.product);
    rows += cut.product->rows;
  }
  if (rows == 0) return;
  std::byte* memory = context.partials->reserve(bytes);
  for (CutProduct& cut : cuts) {
    if (!is_whole(cut.product->w->format)) continue;
    if (cut.int8())
      cut.quantised = QuantisedRows::in(*cut.product->w, cut.product->rows, size, memory);
    else
      cut.in_groups = block_rows_in(*cut.product->w, memory);
    memory += bytes_of(*cut.product);
  }
  context.threads->run(ceil_div(rows, kQuantisedRows), [&](int64_t task, int worker) {
    const int64_t end = std::min(rows, (task + 1) * kQuantisedRows);
    for (int64_t row = task * kQuantisedRows; row < end; ++row) {
      // The last that begins at or before it;
      // those without such rows begin where the next one does.
      const auto after = std::ranges::upper_bound(cuts, row, {}, &CutProduct::first_row);
      const CutProduct& own = *std::prev(after);
      if (own.int8())
        quantise_row(context, *own.product->w, own.product->x, row - own.first_row, worker,
                     own.quantised);
      else
        quantise_block_row(context, *own.product->w, own.product->x, row - own.first_row, worker,
                           own.in_groups);
    }
  });
}

void run_task(const CpuContext& context, const CutProduct& cut, int64_t task, int worker) {
  const GemmProduct& product = *cut.product;
  const Plan& plan = cut.plan;
  // Row blocks vary fastest: threads that work at the same time read the same panels.
  const int64_t row = task % plan.row_blocks * plan.row_block;
  const int64_t count = std::min(plan.row_block, product.rows - row);
  const int64_t pair = task / plan.row_blocks * plan.pair_block;
  const int64_t pair_end = std::min(plan.pairs, pair + plan.pair_block);
  PairTask pair_task(context, cut, worker);
  context.kernels->gemm.begin();
  for (int64_t p = pair; p < pair_end; ++p)
    pair_task.run(row, count, p, plan.k_block, p + 1 < pair_end);
  context.kernels->gemm.end();
}

}  // namespace

void gemm(const CpuContext& context, const PackedWeights& w, ActivationBuffer x, int64_t rows,
          const GemmOutput& output) {
  if (rows <= 0 || w.n <= 0) return;
  const GemmProduct product{&w, x, rows, output};
  CutProduct only = cut(context, product, 1, 0);
  quantise(context, {&only, 1});
  context.threads->run(only.end_task(),
                       [&](int64_t task, int worker) { run_task(context, only, task, worker); });
}

void gemm_in_slices(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                    int64_t rows, const GemmOutput& output, int64_t slice,
                    const std::function<void(int64_t first, int64_t count)>& each) {
  PREFIX_CHECK(context.threads->count() == 1 && output.gated_out == nullptr);
  PREFIX_CHECK(slice > 0 && slice % kTileColumns == 0);
  if (rows <= 0 || w.n <= 0) return;
  const GemmProduct product{&w, x, rows, output};
  CutProduct only = cut(context, product, 1, 0);
  quantise(context, {&only, 1});
  const int64_t pairs = only.plan.pairs, step = slice / kTileColumns;
  for (int64_t first = 0; first < pairs; first += step) {
    const int64_t end = std::min(pairs, first + step);
    PairTask task(context, only, 0, first);
    context.kernels->gemm.begin();
    for (int64_t row = 0; row < rows; row += only.plan.row_block)
      for (int64_t pair = first; pair < end; ++pair)
        task.run(row, std::min(only.plan.row_block, rows - row), pair, only.plan.k_block,
                 pair + 1 < pairs);
    context.kernels->gemm.end();
    each(first * kTileColumns, std::min(end * kTileColumns, output.columns) - first * kTileColumns);
  }
}

void gemm(const CpuContext& context, std::span<const GemmProduct> products) {
  std::vector<CutProduct> cuts;
  cuts.reserve(products.size());
  for (const GemmProduct& product : products) {
    if (product.rows <= 0 || product.w->n <= 0) continue;
    const int64_t first = cuts.empty() ? 0 : cuts.back().end_task();
    cuts.push_back(cut(context, product, static_cast<int64_t>(products.size()), first));
  }
  if (cuts.empty()) return;
  quantise(context, cuts);
  context.threads->run(cuts.back().end_task(), [&](int64_t task, int worker) {
    const auto after = std::ranges::upper_bound(cuts, task, {}, &CutProduct::first_task);
    const CutProduct& own = *std::prev(after);
    run_task(context, own, task - own.first_task, worker);
  });
}

}  // namespace prefix::ops
