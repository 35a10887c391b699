// What a task does otherwise with int8 keys and values:
// queries, softmax and values in whole numbers.
#include <algorithm>
#include <utility>

#include "ops/cpu/attention_task.h"
#include "ops/cpu/prefetch.h"
#include "ops/rotation.h"

namespace prefix::ops {

// TaskMemory::whole, of which a number of each row takes `line` bytes.
void AttentionTask::lay_out_whole(std::byte* at, size_t line) {
  const auto n = static_cast<size_t>(rows_);
  q_scales_ = reinterpret_cast<float*>(at);
  q_corrections_ = reinterpret_cast<int32_t*>(at += line);
  key_scales_ = reinterpret_cast<const float**>(at += line);
  value_scales_ = key_scales_ + n * kBlockPages;
  p_scales_ = reinterpret_cast<float*>(value_scales_ + n * kBlockPages);
}

// Rows of the tile -> packed rows, rotated as keys are, in whole numbers.
void AttentionTask::quantise_queries() {
  const int64_t head_dim = call_.step.kv.head_dim;
  QuantiseArgs args;
  args.bf16 = call_.context.act_is_bf16();
  args.k = head_dim;
  args.block = rotation_block(head_dim);
  args.signs = no_signs();
  args.work = now_.o;  // nothing is summed yet
  args.k_padded = call_.d;
  const auto widen = call_.context.kernels->gemm.widen_quads;
  for (int64_t r = 0; r < rows_; ++r) {
    std::byte* const row = q_ + static_cast<size_t>(r * call_.ldq) * call_.query_bytes();
    args.x = query(r);
    args.next = query(r + kHeadsAhead);
    args.out = reinterpret_cast<int8_t*>(row) + (widen == nullptr ? 0 : call_.d);
    const QuantisedRow made = call_.context.kernels->rows.quantise(args);
    if (widen != nullptr) widen(args.out, call_.d, reinterpret_cast<int16_t*>(row));
    q_scales_[r] = made.scale;
    q_corrections_[r] = 128 * made.sum;
  }
}

void AttentionTask::whole_softmax(const KeyBlock& block, int64_t row_begin,
                                  const SoftmaxArgs& args) const {
  WholeSoftmaxArgs whole;
  whole.scales_stride = point_to_scales(block, row_begin, row_begin + args.rows);
  whole.rows = args;
  whole.corrections = q_corrections_ + row_begin;
  whole.q_scales = q_scales_ + row_begin;
  whole.key_scales = key_scales_ + row_begin * kBlockPages;
  whole.value_scales = value_scales_ + row_begin * kBlockPages;
  whole.p = reinterpret_cast<uint8_t*>(p_) + row_begin * call_.ldp;
  whole.ldp = call_.ldp;
  whole.p_scales = p_scales_ + row_begin * kBlockSpans;
  call_.context.kernels->attention.softmax_int8(whole);
}

// Of each row the scales of its pages; returns what lies between two rows. Where all rows that
// see a page of the block see the same one they share its scales, for those that see none of it
// count for nothing.
int64_t AttentionTask::point_to_scales(const KeyBlock& block, int64_t row_begin,
                                       int64_t row_end) const {
  static constexpr float kNone[kPageTokens] = {};
  bool taken[kBlockPages] = {}, shared = true;
  block.over_pieces(row_begin, row_end, [&](const KeyBlock::Piece& piece) {
    for (int32_t i = 0; i < piece.count; ++i)
      shared = !std::exchange(taken[piece.column / kPageTokens + i], true) && shared;
  });
  const int64_t end = shared ? row_begin + 1 : row_end;
  std::fill(key_scales_ + row_begin * kBlockPages, key_scales_ + end * kBlockPages, kNone);
  std::fill(value_scales_ + row_begin * kBlockPages, value_scales_ + end * kBlockPages, kNone);
  block.over_pieces(row_begin, row_end, [&](KeyBlock::Piece piece) {
    if (shared) {
      piece.row_begin = row_begin;
      piece.row_end = end;
    }
    for (int32_t i = 0; i < piece.count; ++i) {
      const int32_t page = block.pages_of(piece)[i];
      const float* const keys = scales_behind(key_page(page));
      const float* const values = scales_behind(value_page(page));
      int64_t at = piece.row_begin * kBlockPages + piece.column / kPageTokens + i;
      for (int64_t r = piece.row_begin; r < piece.row_end; ++r, at += kBlockPages) {
        key_scales_[at] = keys;
        value_scales_[at] = values;
      }
    }
  });
  return shared ? 0 : kBlockPages;
}

// Of a span a row has one sum, whichever pieces its pages are of:
// rows with the same pages go together.
void AttentionTask::whole_values(const KeyBlock& block, int64_t row_begin, int64_t row_end) const {
  for (int32_t first = 0; first < kBlockPages; first += kSpanPages) {
    int64_t end = row_begin;
    for (int64_t begin = row_begin; begin < row_end; begin = end) {
      end = row_end;
      const KeyBlock::Span span = block.span(first, begin, end);
      const int32_t count = span.end - span.first;
      if (count <= 0) continue;
      const std::byte* values[kSpanPages];
      for (int32_t i = 0; i < count; ++i) values[i] = value_page(span.pages[span.first + i]);
      over_seen(block.position + (first + span.first) * kPageTokens, count, begin, end,
                [&](int64_t seen_begin, int64_t seen_end, PageRange seen) {
                  multiply_whole(values + seen.first, seen.end - seen.first,
                                 first + span.first + seen.first, seen_begin, seen_end);
                });
    }
  }
}

// Pages [page, page + count) of the block, in one span.
void AttentionTask::multiply_whole(const std::byte* const* values, int32_t count, int64_t page,
                                   int64_t begin, int64_t end) const {
  ValueTileArgs tile;
  tile.p = reinterpret_cast<const uint8_t*>(p_) + begin * call_.ldp + page * kPageTokens;
  tile.ldp = call_.ldp;
  tile.p_scales = p_scales_ + begin * kBlockSpans + page / kSpanPages;
  tile.blocks = values;
  tile.pages = count;
  tile.o = now_.o + begin * call_.ldo();
  tile.ldo = call_.ldo();
  tile.d = call_.d;
  tile.rows = end - begin;
  call_.context.kernels->gemm.tile_values(tile);
}

}  // namespace prefix::ops
