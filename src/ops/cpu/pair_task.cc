#include "ops/cpu/pair_task.h"

#include <algorithm>

#include "ops/round_up.h"

namespace prefix::ops {
namespace {

// k [begin, begin + kc) of both panels of a pair.
struct PanelPair {
  const void* left = nullptr;
  const void* right = nullptr;  // null: the pair has one panel
  int64_t pair = 0;
  int64_t k = 0;  // begin
  int64_t kc = 0;

  Panels panels() const { return {&left, right == nullptr ? nullptr : &right, 1, kc}; }
};

PanelPair panel_pair(const PackedWeights& w, int64_t pair, int64_t begin, int64_t k_block) {
  const size_t offset = static_cast<size_t>(begin * kPanelColumns) * weight_bytes(w.format);
  PanelPair two;
  two.left = w.panel(2 * pair) + offset;
  if (2 * pair + 1 < w.panels()) two.right = w.panel(2 * pair + 1) + offset;
  two.pair = pair;
  two.k = begin;
  two.kc = std::min(k_block, w.k_padded - begin);
  return two;
}

}  // namespace

PairTask::PairTask(const CpuContext& context, const ReadyProduct& ready, int worker,
                   int64_t first_pair)
    : context_(context),
      worker_(worker),
      gemm_(context.kernels->gemm),
      w_(*ready.product->w),
      ready_(ready),
      x_(ready.x()),
      output_(ready.product->output),
      first_pair_(first_pair) {}

void PairTask::run(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more) {
  alignas(64) float sums[kMaxRowBlock * kTileColumns];
  if (ready_.blocks()) return run_blocks(row, rows, pair, sums);
  const int64_t terms = rows * w_.terms;
  if (terms >= gemm_.panel_rows) return run_panels(row, rows, pair, k_block, more, sums);
  const bool wide = w_.format == WeightFormat::kBf16 && WidePanels::worth(gemm_, terms);
  if (wide && !wide_) wide_.emplace(gemm_, context_.wide[worker_], k_block);
  // Rows that widen meanwhile instead of prefetching.
  const int64_t busy = wide ? kWideningRows : 0;
  const bool prefetch = terms >= (wide ? busy + kPrefetchRows : gemm_.least_prefetch_rows);
  const int64_t end_panel = more ? w_.panels() : 2 * (pair + 1);  // of those that follow
  const auto following = [&](const PanelPair& two) -> PanelPair {
    if (two.k + k_block < w_.k_padded) return panel_pair(w_, two.pair, two.k + k_block, k_block);
    if (2 * (two.pair + 1) < end_panel) return panel_pair(w_, two.pair + 1, 0, k_block);
    return {};
  };
  for (int64_t k = 0; k < w_.k_padded; k += k_block) {
    const bool last = k + k_block >= w_.k_padded;
    const PanelPair now = panel_pair(w_, pair, k, k_block);
    const PanelPair next = following(now);
    // Prefetched meanwhile; what is widened was prefetched a tile ago.
    const PanelPair ahead = wide && next.left != nullptr ? following(next) : next;
    TileArgs tile;
    tile.lda = x_.ld;
    tile.b0 = &now.left;
    tile.b1 = now.right == nullptr ? nullptr : &now.right;
    tile.chunks = 1;
    tile.kc = now.kc;
    tile.ldc = kTileColumns;
    tile.accumulate = k > 0;
    const auto k_bytes = static_cast<int64_t>(kPanelColumns * weight_bytes(w_.format));
    const int64_t turns = std::max<int64_t>(1, ceil_div(terms - busy, kPrefetchRows));
    tile.prefetch_step = ceil_div(k_bytes, turns);
    const int64_t step = last ? finish_rows() : terms;
    const bool only = last && k == 0;  // sums that are finished at once stay in the same lines
    for (int64_t r = 0; r < terms; r += step) {
      tile.a = x_at(row * w_.terms + r, k);
      tile.c = sums + (only ? 0 : r) * kTileColumns;
      tile.rows = std::min(step, terms - r);
      if (prefetch && ahead.left != nullptr) {
        const int64_t turn = std::max<int64_t>(0, r - busy) / kPrefetchRows;
        tile.prefetch[0] =
            static_cast<const std::byte*>(ahead.left) + turn * tile.kc * tile.prefetch_step;
        tile.prefetch[1] = static_cast<const std::byte*>(tile.prefetch[0]) + w_.panel_bytes();
      }
      wide ? wide_->multiply(tile, next.panels()) : context_.tile(w_.format)(tile);
      if (last) finish_terms(tile.c, row * w_.terms + r, tile.rows, pair);
    }
  }
}

int64_t PairTask::finish_rows() const {
  return round_up(ready_.int8() ? gemm_.int8_finish_rows : kFinishRows, gemm_.row_step);
}

const std::byte* PairTask::x_at(int64_t term, int64_t k) const {
  return x_.data + static_cast<size_t>(term * x_.ld + k) * context_.operand_bytes(w_.format);
}

void PairTask::run_panels(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more,
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
      tile.prefetch[0] =
          end && !more ? nullptr
                       : static_cast<const std::byte*>(b) + k_bytes * static_cast<size_t>(tile.kc);
      context_.tile(w_.format)(tile);
    }
  }
  const int64_t step = finish_rows();
  for (int64_t r = 0; r < terms; r += step) {
    const int64_t count = std::min(step, terms - r);
    finish_terms(sums + r * kTileColumns, row * w_.terms + r, count, pair);
  }
}

void PairTask::finish_terms(float* sums, int64_t first, int64_t count, int64_t pair) const {
  const int64_t row = first / w_.terms, rows = count / w_.terms;
  WholeSums whole;
  if (ready_.int8())
    whole = {ready_.quantised.corrections + first, ready_.quantised.scales + first,
             w_.scales + pair * kTileColumns};
  // What is added before they are finished is f32.
  const bool at_once = w_.terms == 1 && output_.thin.empty();
  if (ready_.int8() && !at_once) scale(sums, whole, count, pair);
  if (w_.terms == 2) add_terms(sums, rows, 2 * pair + 1 < w_.panels());
  add_thin(sums, row, rows, pair);
  finish(sums, ready_.int8() && at_once ? &whole : nullptr, row, rows, pair);
}

void PairTask::run_blocks(int64_t row, int64_t rows, int64_t pair, float* sums) const {
  for (int64_t side = 0; side < 2 && 2 * pair + side < w_.panels(); ++side) {
    const int64_t panel = 2 * pair + side;
    BlockTileArgs tile;
    tile.panel = w_.panel(panel);
    tile.type = w_.blocks.get()[panel].type;
    tile.x = ready_.in_groups;
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

void PairTask::add_terms(float* sums, int64_t rows, bool both) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* const two = sums + 2 * r * kTileColumns;
    for (int64_t j = 0; j < (both ? kTileColumns : kPanelColumns); ++j)
      sums[r * kTileColumns + j] = two[j] + two[kTileColumns + j];
  }
}

void PairTask::scale(float* sums, const WholeSums& whole, int64_t rows, int64_t pair) const {
  ScaleSumsArgs args;
  args.c = sums;
  args.ldc = kTileColumns;
  args.rows = rows;
  args.columns = 2 * pair + 1 < w_.panels() ? kTileColumns : kPanelColumns;
  args.whole = whole;
  gemm_.scale_sums(args);
}

void PairTask::add_thin(float* sums, int64_t row, int64_t rows, int64_t pair) const {
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

void PairTask::finish(const float* sums, const WholeSums* whole, int64_t row, int64_t rows,
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

}  // namespace prefix::ops
