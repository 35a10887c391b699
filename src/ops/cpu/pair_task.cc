#include "ops/cpu/pair_task.h"

#include <algorithm>

#include "ops/round_up.h"

namespace prefix::ops {
namespace {

// With fewer rows what they gain is less than what the first of them lose.
constexpr int64_t kLeastWideRows = 3 * kWideningRows;

}  // namespace

PairTask::PairTask(const CpuContext& context, const ReadyProduct& ready, int worker,
                   int64_t first_pair)
    : context_(context),
      scratch_(context.scratch[worker]),
      gemm_(context.kernels->gemm),
      w_(*ready.product->w),
      ready_(ready),
      x_(ready.x()),
      output_(ready.product->output),
      first_pair_(first_pair) {}

void PairTask::run(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more) const {
  alignas(64) float sums[kMaxRowBlock * kTileColumns];
  if (ready_.blocks()) return run_blocks(row, rows, pair, sums);
  if (rows * w_.terms >= gemm_.panel_rows) return run_panels(row, rows, pair, k_block, more, sums);
  const std::byte* const left = w_.data + static_cast<size_t>(2 * pair) * w_.panel_bytes();
  const bool both = 2 * pair + 1 < w_.panels();
  const size_t k_bytes = kPanelColumns * weight_bytes(w_.format);  // of one k in a panel
  const int64_t terms = rows * w_.terms;
  float* const wide = wide_panels(terms, k_block);
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
    tile.wide = wide;
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
      wide == nullptr ? context_.tile(w_.format)(tile) : multiply_wide(tile, r == 0);
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

float* PairTask::wide_panels(int64_t terms, int64_t k_block) const {
  if (gemm_.tile_widening == nullptr || w_.format != WeightFormat::kBf16 || terms < kLeastWideRows)
    return nullptr;
  return reinterpret_cast<float*>(
      scratch_.reserve(static_cast<size_t>(kTileColumns * k_block) * sizeof(float)));
}

void PairTask::multiply_wide(TileArgs tile, bool first) const {
  if (first) {
    TileArgs head = tile;
    head.rows = std::min(tile.rows, kWideningRows);
    gemm_.tile_widening(head);
    tile.a = static_cast<const float*>(tile.a) + head.rows * tile.lda;  // no level widens for bf16
    tile.c += head.rows * tile.ldc;
    tile.rows -= head.rows;
    for (const void*& panel : tile.prefetch)
      if (panel != nullptr)
        panel = static_cast<const std::byte*>(panel) +
                head.rows / kPrefetchRows * tile.kc * tile.prefetch_step;
  }
  const void* const left = tile.wide;
  const void* const right = tile.wide + tile.kc * kPanelColumns;
  tile.b0 = &left;
  if (tile.b1 != nullptr) tile.b1 = &right;
  gemm_.tile_f32(tile);
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
