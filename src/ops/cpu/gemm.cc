#include "ops/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/status.h"
#include "ops/cpu/quantise.h"

namespace prefix::ops {
namespace {

constexpr int64_t kTileColumns = 64;
// Of which a tile takes a multiple, whatever the format.
constexpr int64_t kStepK = 64;
// Rows of x that a task turns into whole numbers.
constexpr int64_t kQuantisedRows = 8;
// Tasks per thread: enough to even out a slow core, few enough to reuse the rows of x.
constexpr int64_t kTasksPerThread = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

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
struct CutProduct {
  const GemmProduct* product;
  Plan plan;
  int64_t first_task;
  QuantisedRows quantised;  // x where the weights are int8
  BlockRows in_groups;      // x where they are blocks
  int64_t first_row;        // of all products in whole numbers

  int64_t end_task() const { return first_task + plan.row_blocks * plan.pair_blocks; }
  bool int8() const { return product->w->format == WeightFormat::kInt8; }
  bool blocks() const { return product->w->format == WeightFormat::kBlocks; }
  // What the tiles read.
  ActivationBuffer x() const {
    return int8() ? ActivationBuffer{quantised.data, quantised.ld} : product->x;
  }
};

// The sums of one row block and panel pair, cut along k, then finished.
class PairTask {
 public:
  // `first_pair`: whose columns y begins with.
  PairTask(const CpuContext& context, const CutProduct& cut, int64_t first_pair = 0)
      : context_(context),
        gemm_(context.kernels->gemm),
        w_(*cut.product->w),
        cut_(cut),
        x_(cut.x()),
        output_(cut.product->output),
        first_pair_(first_pair) {}

  // `more`: the next pair follows.
  void run(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more) {
    alignas(64) float sums[kMaxRowBlock * kTileColumns];
    if (cut_.blocks()) return run_blocks(row, rows, pair, sums);
    if (rows * w_.terms >= gemm_.panel_rows)
      return run_panels(row, rows, pair, k_block, more, sums);
    const std::byte* const left = w_.data + static_cast<size_t>(2 * pair) * w_.panel_bytes();
    const bool both = 2 * pair + 1 < w_.panels();
    const size_t k_bytes = kPanelColumns * weight_bytes(w_.format);  // of one k in a panel
    const int64_t terms = rows * w_.terms;
    for (int64_t k = 0; k < w_.k_padded; k += k_block) {
      const bool last = k + k_block >= w_.k_padded;
      const void* b0 = left + static_cast<size_t>(k) * k_bytes;
      const void* b1 = left + w_.panel_bytes() + static_cast<size_t>(k) * k_bytes;
      TileArgs tile;
      tile.lda = x_.ld;
      tile.b0 = &b0;
      tile.b1 = both ? &b1 : nullptr;
      tile.chunks = 1;
      tile.kc = std::min(k_block, w_.k_padded - k);
      tile.ldc = kTileColumns;
      tile.accumulate = k > 0;
      // Meanwhile the panels of the next tile are prefetched.
      const std::byte* next =
          last ? (more ? left + 2 * w_.panel_bytes() : nullptr)
               : static_cast<const std::byte*>(b0) + k_bytes * static_cast<size_t>(tile.kc);
      if (terms < gemm_.least_prefetch_rows) next = nullptr;
      const int64_t turns = ceil_div(terms, kPrefetchRows);
      tile.prefetch_step = ceil_div(static_cast<int64_t>(k_bytes), turns);
      const int64_t step = last ? finish_rows() : terms;
      const bool only = last && k == 0;  // sums that are finished at once stay in the same lines
      for (int64_t r = 0; r < terms; r += step) {
        tile.a = x_at(row * w_.terms + r, k);
        tile.c = sums + (only ? 0 : r) * kTileColumns;
        tile.rows = std::min(step, terms - r);
        if (next != nullptr) {
          tile.prefetch[0] = next + r / kPrefetchRows * tile.kc * tile.prefetch_step;
          tile.prefetch[1] = static_cast<const std::byte*>(tile.prefetch[0]) + w_.panel_bytes();
        }
        context_.tile(w_.format)(tile);
        if (last) finish_terms(tile.c, row * w_.terms + r, tile.rows, pair);
      }
    }
  }

 private:
  int64_t finish_rows() const {
    return round_up(cut_.int8() ? gemm_.int8_finish_rows : kFinishRows, gemm_.row_step);
  }

  const std::byte* x_at(int64_t term, int64_t k) const {
    return x_.data + static_cast<size_t>(term * x_.ld + k) * context_.operand_bytes(w_.format);
  }

  // All rows with k_block of a panel, which stay in L1, then with what follows there.
  void run_panels(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more,
                  float* sums) const {
    const int64_t terms = rows * w_.terms, first_panel = 2 * pair;
    const int64_t end_panel = std::min(first_panel + 2, w_.panels());
    const size_t k_bytes = kPanelColumns * weight_bytes(w_.format);  // of one k in a panel
    TileArgs tile;
    tile.lda = x_.ld;
    tile.chunks = 1;
    tile.ldc = kTileColumns;
    tile.rows = terms;
    tile.prefetch_step = ceil_div(static_cast<int64_t>(k_bytes), ceil_div(terms, kPrefetchRows));
    for (int64_t panel = first_panel; panel < end_panel; ++panel) {
      tile.c = sums + (panel - first_panel) * kPanelColumns;
      for (int64_t k = 0; k < w_.k_padded; k += k_block) {
        const void* const b = w_.panel(panel) + static_cast<size_t>(k) * k_bytes;
        tile.kc = std::min(k_block, w_.k_padded - k);
        tile.accumulate = k > 0;
        tile.b0 = &b;
        tile.a = x_at(row * w_.terms, k);
        // The next of them lies behind it, of whatever panel.
        const bool end = panel + 1 == end_panel && k + k_block >= w_.k_padded;
        tile.prefetch[0] = end && !more ? nullptr
                                        : static_cast<const std::byte*>(b) +
                                              k_bytes * static_cast<size_t>(tile.kc);
        context_.tile(w_.format)(tile);
      }
    }
    const int64_t step = finish_rows();
    for (int64_t r = 0; r < terms; r += step) {
      const int64_t count = std::min(step, terms - r);
      finish_terms(sums + r * kTileColumns, row * w_.terms + r, count, pair);
    }
  }

  // Sums of rows [first, first + count) of x to where they belong.
  void finish_terms(float* sums, int64_t first, int64_t count, int64_t pair) const {
    const int64_t row = first / w_.terms, rows = count / w_.terms;
    WholeSums whole;
    if (cut_.int8())
      whole = {cut_.quantised.corrections + first, cut_.quantised.scales + first,
               w_.scales + pair * kTileColumns};
    // What is added before they are finished is f32.
    const bool at_once = w_.terms == 1 && output_.thin.empty();
    if (cut_.int8() && !at_once) scale(sums, whole, count, pair);
    if (w_.terms == 2) add_terms(sums, rows, 2 * pair + 1 < w_.panels());
    add_thin(sums, row, rows, pair);
    finish(sums, cut_.int8() && at_once ? &whole : nullptr, row, rows, pair);
  }

  // All of k at once: a kernel walks along both panels unit by unit.
  void run_blocks(int64_t row, int64_t rows, int64_t pair, float* sums) const {
    for (int64_t side = 0; side < 2 && 2 * pair + side < w_.panels(); ++side) {
      const int64_t panel = 2 * pair + side;
      BlockTileArgs tile;
      tile.panel = w_.panel(panel);
      tile.type = w_.blocks.get()[panel].type;
      tile.x = cut_.in_groups;
      tile.first_row = row * w_.terms;
      tile.rows = rows * w_.terms;
      tile.c = sums + side * kPanelColumns;
      tile.ldc = kTileColumns;
      gemm_.tile_blocks(tile);
    }
    if (w_.terms == 2) add_terms(sums, rows, 2 * pair + 1 < w_.panels());
    for (int64_t r = 0; r < rows; r += kFinishRows) {
      const int64_t count = std::min(kFinishRows, rows - r);
      add_thin(sums + r * kTileColumns, row + r, count, pair);
      finish(sums + r * kTileColumns, nullptr, row + r, count, pair);
    }
  }

  // Rows 2 r and 2 r + 1 become row r.
  static void add_terms(float* sums, int64_t rows, bool both) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* const two = sums + 2 * r * kTileColumns;
      for (int64_t j = 0; j < (both ? kTileColumns : kPanelColumns); ++j)
        sums[r * kTileColumns + j] = two[j] + two[kTileColumns + j];
    }
  }

  // Whole numbers to f32.
  void scale(float* sums, const WholeSums& whole, int64_t rows, int64_t pair) const {
    ScaleSumsArgs args;
    args.c = sums;
    args.ldc = kTileColumns;
    args.rows = rows;
    args.columns = 2 * pair + 1 < w_.panels() ? kTileColumns : kPanelColumns;
    args.whole = whole;
    gemm_.scale_sums(args);
  }

  // The sums of rows that have thin matrices go on over their rank.
  void add_thin(float* sums, int64_t row, int64_t rows, int64_t pair) const {
    auto range = std::ranges::upper_bound(output_.thin, row, {}, &LowRankRows::end);
    for (; range != output_.thin.end() && range->begin < row + rows; ++range) {
      const int64_t begin = std::max(row, range->begin);
      const PackedWeights& b = range->matrices->b;
      const void* b0 = b.data + static_cast<size_t>(2 * pair) * b.panel_bytes();
      const void* b1 = static_cast<const std::byte*>(b0) + b.panel_bytes();
      TileArgs tile;
      tile.a = from_row(output_.thin_x, begin, context_.act_bytes()).data;
      tile.lda = output_.thin_x.ld;
      tile.b0 = &b0;
      tile.b1 = 2 * pair + 1 < b.panels() ? &b1 : nullptr;
      tile.chunks = 1;
      tile.kc = b.k_padded;
      tile.c = sums + (begin - row) * kTileColumns;
      tile.ldc = kTileColumns;
      tile.rows = std::min(row + rows, range->end) - begin;
      tile.accumulate = true;
      context_.tile(b.format)(tile);
    }
  }

  void finish(const float* sums, const WholeSums* whole, int64_t row, int64_t rows,
              int64_t pair) const {
    if (output_.gated_out != nullptr) {
      const int64_t column = pair * kPanelColumns;
      const bool bf16 = context_.act_is_bf16();
      GatedArgs args;
      args.c = sums;
      args.ldc = kTileColumns;
      args.whole = whole;
      args.bias_gate = output_.bias_gate == nullptr ? nullptr : output_.bias_gate + column;
      args.bias_up = output_.bias_up == nullptr ? nullptr : output_.bias_up + column;
      args.out = static_cast<std::byte*>(output_.gated_out) +
                 static_cast<size_t>(row * output_.ldg + column) * context_.act_bytes();
      args.ldo = output_.ldg;
      args.rows = rows;
      args.columns = std::min(kPanelColumns, output_.columns - column);
      args.fn = output_.fn;
      (bf16 ? gemm_.gated_bf16 : gemm_.gated_f32)(args);
      return;
    }
    const int64_t column = pair * kTileColumns;
    StoreArgs args;
    args.c = sums;
    args.ldc = kTileColumns;
    args.whole = whole;
    args.bias = output_.bias == nullptr ? nullptr : output_.bias + column;
    args.y = output_.y + row * output_.ldy + column - first_pair_ * kTileColumns;
    args.ldy = output_.ldy;
    args.rows = rows;
    args.columns = std::min(kTileColumns, output_.columns - column);
    args.add = output_.add;
    gemm_.store(args);
  }

  const CpuContext& context_;
  const GemmKernels& gemm_;
  const PackedWeights& w_;
  const CutProduct& cut_;
  const ActivationBuffer x_;
  const GemmOutput& output_;
  const int64_t first_pair_;
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
  return {&product, make_plan(context, w, product.rows, products), first_task, {}, {}, 0};
}

// Of all products in whole numbers: their rows, on all threads together.
void quantise(const CpuContext& context, std::span<CutProduct> cuts) {
  size_t bytes = 0;
  int64_t rows = 0;
  const auto bytes_of = [](const GemmProduct& product) {
    return product.w->format == WeightFormat::kInt8 ? QuantisedRows::bytes(*product.w, product.rows)
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
      cut.quantised = QuantisedRows::in(*cut.product->w, cut.product->rows, memory);
    else
      cut.in_groups = block_rows_in(*cut.product->w, memory);
    memory += bytes_of(*cut.product);
  }
  context.threads->run(ceil_div(rows, kQuantisedRows), [&](int64_t task, int worker) {
    const int64_t end = std::min(rows, (task + 1) * kQuantisedRows);
    for (int64_t row = task * kQuantisedRows; row < end; ++row) {
      // The last that begins at or before it; those without such rows begin where the next one does.
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

void run_task(const CpuContext& context, const CutProduct& cut, int64_t task) {
  const GemmProduct& product = *cut.product;
  const Plan& plan = cut.plan;
  // Row blocks vary fastest: threads that work at the same time read the same panels.
  const int64_t row = task % plan.row_blocks * plan.row_block;
  const int64_t count = std::min(plan.row_block, product.rows - row);
  const int64_t pair = task / plan.row_blocks * plan.pair_block;
  const int64_t pair_end = std::min(plan.pairs, pair + plan.pair_block);
  PairTask pair_task(context, cut);
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
  context.threads->run(only.end_task(), [&](int64_t task, int) { run_task(context, only, task); });
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
    PairTask task(context, only, first);
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
  context.threads->run(cuts.back().end_task(), [&](int64_t task, int) {
    const auto after = std::ranges::upper_bound(cuts, task, {}, &CutProduct::first_task);
    const CutProduct& own = *std::prev(after);
    run_task(context, own, task - own.first_task);
  });
}

}  // namespace prefix::ops
