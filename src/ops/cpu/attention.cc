// Segment attention on the CPU.
//
// A task is one kv head of one AttentionItem. Its rows are packed: the G query heads that share the
// kv head become G rows of a small matrix, and a key page is read once for all of them.
//
//   key block (256 positions)     run 0: rows 0..11        run 1: rows 0..5   run 2: rows 6..11
//     1. scores                   S[rows, 64 keys] = Q K^T, two pages of 32 keys at a time
//     2. softmax of each row      S -> P, m, l; O is rescaled if m moved
//     3. values                   O[rows, 64 columns] += P V, all pages of a run in key order
//   and again for the next rows (GemmKernels::attention_rows)
//   every kKeyChunk positions: (m, l, O) is merged into the item's total and starts again at 0.
//
// Of int8 keys and values 1. is an exact sum of whole numbers, of Q quantised row by row; the scales of
// row and key come in with 2. There the scale of each value's token goes into P, and P is rounded to
// bytes with one scale for a row and span of four pages, so that 3. is an exact sum of whole numbers in
// each span. Spans lie at absolute positions, too.
//
// What makes the bits of a row independent of everything but its position and keys: tile products
// sum each element in ascending k (gemm_kernels.h); key blocks and chunks lie at absolute
// positions; step 2 sees a row's scores only; a masked key has weight 0, which adds exactly
// nothing; chunks are merged in order by the same code, in one item or from partial slots, and one
// of which the row sees nothing is an empty state. A sink is a state of its own, merged in the end.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/cpu/key_block.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/step.h"
#include "ops/rotation.h"

namespace prefix::ops {
namespace {

constexpr int32_t kChunkBlocks = kKeyChunk / kKeyBlock;
constexpr int64_t kScoreColumns = kKeyBlock + 32;  // spare columns: SoftmaxArgs::lds
constexpr float kLog2E = 1.44269504088896340736f;
// What the kernels are written for.
static_assert(kKeyBlock == 256 && kPageTokens == 32 && kBlockPages * kPageTokens == kKeyBlock);

// (m, l, O) of the packed rows.
struct SoftmaxState {
  float* m;
  float* l;
  float* o;
};

int32_t first_chunk(const AttentionTile& tile) { return tile.first_key / kKeyChunk; }
int32_t end_chunk(const AttentionTile& tile) { return tile.last_position / kKeyChunk + 1; }

// Everything that the tasks of one call share.
struct Call {
  const CpuContext& context;
  const StepArrays& step;
  const AttentionPlan& plan;
  const AttentionArgs& args;
  int64_t group;     // query heads per kv head
  int64_t d;         // padded
  int64_t ldo;       // floats, of a state
  int64_t max_rows;  // packed rows of the largest tile
  std::byte* partials = nullptr;
  int64_t ldq = leading(d);  // elements
  int64_t ldp = leading(kKeyBlock);

  bool int8() const { return step.kv.type == KvType::kInt8; }
  size_t act_bytes() const { return context.act_bytes(); }
  // Of a number of packed queries and weights.
  size_t operand_bytes() const { return int8() ? 1 : act_bytes(); }
  // Leading dimension of their rows: whole cache lines, which a tile's row of 64 bytes never straddles, and an odd
  // number of them, as rows of a tile should not share sets of L1.
  int64_t leading(int64_t numbers) const {
    const auto bytes = static_cast<int64_t>(operand_bytes());
    return ((numbers * bytes + 63) / 64 | 1) * 64 / bytes;
  }
  size_t state_bytes() const { return static_cast<size_t>(max_rows * (ldo + 16)) * sizeof(float); }
  SoftmaxState state_at(std::byte* at) const {
    auto* const o = reinterpret_cast<float*>(at);
    return {o + max_rows * ldo, o + max_rows * (ldo + 1), o};
  }
  SoftmaxState partial(int64_t slot, int64_t head) const {
    return state_at(partials + static_cast<size_t>(slot * step.kv.kv_heads + head) * state_bytes());
  }
};

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// One kv head of one item.
class ItemTask {
 public:
  ItemTask(const Call& call, const AttentionTile& tile, int64_t head, Scratch& scratch)
      : call_(call),
        plan_(call.plan),
        tile_(tile),
        head_(head),
        rows_((tile.row_end - tile.row_begin) * call.group) {
    const auto n = static_cast<size_t>(rows_);
    const size_t q_bytes = round_up(n * static_cast<size_t>(call.ldq) * call.operand_bytes());
    const size_t p_bytes = round_up(n * static_cast<size_t>(call.ldp) * call.operand_bytes());
    const size_t s_bytes = round_up(n * kScoreColumns * sizeof(float));
    const size_t position_bytes = round_up(n * sizeof(int32_t));
    const size_t state_bytes = round_up(call.state_bytes());
    const size_t int8_bytes = call.int8() ? whole_bytes() : 0;
    std::byte* at = scratch.reserve(q_bytes + p_bytes + s_bytes + 2 * position_bytes +
                                    2 * state_bytes + int8_bytes);
    q_ = at;
    p_ = (at += q_bytes);
    s_ = reinterpret_cast<float*>(at += p_bytes);
    first_ = reinterpret_cast<int32_t*>(at += s_bytes);
    last_ = reinterpret_cast<int32_t*>(at += position_bytes);
    now_ = call.state_at(at += position_bytes);
    total_ = call.state_at(at += state_bytes);
    if (call.int8()) lay_out_whole(at + state_bytes);
    for (int64_t r = 0; r < rows_; ++r) {
      const auto row = static_cast<size_t>(tile.row_begin + r / call.group);
      const SeenKeys seen = seen_keys(plan_, row, call.step.positions[row]);
      first_[r] = seen.first;
      last_[r] = seen.last;
    }
  }

  void run(const AttentionItem& item) {
    gather_queries();
    if (item.chunk >= 0) {
      now_ = call_.partial(item.slot, head_);
      walk_chunk(item.chunk);
      return;
    }
    for (int32_t chunk = first_chunk(tile_); chunk < end_chunk(tile_); ++chunk) {
      walk_chunk(chunk);
      if (chunk == first_chunk(tile_)) {
        std::swap(now_, total_);
      } else {
        merge(now_);
      }
    }
    finish();
  }

  // Merges the partial slots [slot, slot + chunks) of a split tile.
  void merge_chunks(int32_t slot, int32_t chunks) {
    total_ = call_.partial(slot, head_);
    for (int32_t c = 1; c < chunks; ++c) merge(call_.partial(slot + c, head_));
    finish();
  }

 private:
  // Bytes to the head of a packed row, or of the last one, in rows of all heads.
  size_t head_offset(const ActivationBuffer& all, int64_t r) const {
    r = std::min(r, rows_ - 1);
    const int64_t row = tile_.row_begin + r / call_.group;
    const int64_t column = (head_ * call_.group + r % call_.group) * call_.step.kv.head_dim;
    return static_cast<size_t>(row * all.ld + column) * call_.act_bytes();
  }
  const std::byte* query(int64_t r) const {
    return call_.args.q.data + head_offset(call_.args.q, r);
  }

  // Rows of the tile -> packed rows [token][g][d], zero in the padding.
  void gather_queries() {
    if (call_.int8()) return quantise_queries();
    const size_t bytes = call_.act_bytes();
    const int64_t head_dim = call_.step.kv.head_dim;
    const size_t copied = static_cast<size_t>(head_dim) * bytes;
    const size_t padding = static_cast<size_t>(call_.d - head_dim) * bytes;
    for (int64_t r = 0; r < rows_; ++r) {
      std::byte* const to = q_ + static_cast<size_t>(r * call_.ldq) * bytes;
      prefetch_row(query(r + kHeadsAhead), copied);
      std::memcpy(to, query(r), copied);
      if (padding > 0) std::memset(to + copied, 0, padding);
    }
  }

  // The same, rotated as keys are, in whole numbers.
  void quantise_queries() {
    const int64_t head_dim = call_.step.kv.head_dim;
    QuantiseArgs args;
    args.bf16 = call_.context.act_is_bf16();
    args.k = head_dim;
    args.block = rotation_block(head_dim);
    args.signs = no_signs();
    args.work = now_.o;  // nothing is summed yet
    args.k_padded = call_.d;
    for (int64_t r = 0; r < rows_; ++r) {
      args.x = query(r);
      args.next = query(r + kHeadsAhead);
      args.out = reinterpret_cast<int8_t*>(q_) + r * call_.ldq;
      const QuantisedRow made = call_.context.kernels->rows.quantise(args);
      q_scales_[r] = made.scale;
      q_corrections_[r] = 128 * made.sum;
    }
  }

  void walk_chunk(int32_t chunk) {
    const int32_t first_block = std::max(chunk * kChunkBlocks, tile_.first_key / kKeyBlock);
    const int32_t end_block =
        std::min((chunk + 1) * kChunkBlocks, tile_.last_position / kKeyBlock + 1);
    std::fill_n(now_.m, rows_, -std::numeric_limits<float>::infinity());
    std::fill_n(now_.l, rows_, 0.0f);
    std::memset(now_.o, 0, static_cast<size_t>(rows_ * call_.ldo) * sizeof(float));
    gather_block(first_block, now_block_);
    for (int32_t block = first_block; block < end_block; ++block) {
      next_block_.clear();
      if (block + 1 < end_block) gather_block(block + 1, next_block_);
      walk_block(now_block_);
      std::swap(now_block_, next_block_);
    }
  }

  void gather_block(int32_t index, KeyBlock& block) const {
    const int32_t first_page = index * kBlockPages;
    const int32_t end_page = first_page + kBlockPages;
    block.clear();
    block.position = index * kKeyBlock;
    for (int32_t i = tile_.run_begin; i < tile_.run_end; ++i) {
      const AttentionRun& run = plan_.runs[static_cast<size_t>(i)];
      if (run.block_begin >= end_page) break;  // sorted by block_begin
      const int32_t begin = std::max(run.block_begin, first_page);
      const int32_t end = std::min(run.block_begin + run.blocks, end_page);
      if (begin >= end) continue;
      KeyBlock::Piece piece;
      piece.first = block.pages.size();
      piece.count = end - begin;
      piece.column = (begin - first_page) * kPageTokens;
      piece.row_begin = (run.row_begin - tile_.row_begin) * call_.group;
      piece.row_end = (run.row_end - tile_.row_begin) * call_.group;
      trim(begin * kPageTokens, end * kPageTokens, piece.row_begin, piece.row_end);
      if (piece.row_begin == piece.row_end) continue;
      const int32_t* const pages = plan_.pages.data() + run.page_begin - run.block_begin;
      block.pages.insert(block.pages.end(), pages + begin, pages + end);
      block.pieces.push_back(piece);
    }
  }

  void walk_block(const KeyBlock& block) {
    if (block.pieces.empty()) return;
    int64_t row_begin = rows_;
    int64_t row_end = 0;
    for (const KeyBlock::Piece& piece : block.pieces) {
      row_begin = std::min(row_begin, piece.row_begin);
      row_end = std::max(row_end, piece.row_end);
    }
    prefetch_next();
    const int64_t step = call_.context.kernels->gemm.attention_rows;
    for (int64_t begin = row_begin; begin < row_end; begin += step) {
      const int64_t end = std::min(row_end, begin + step);
      block.over_pieces(begin, end, [&](const KeyBlock::Piece& piece) { scores(block, piece); });
      softmax(block, begin, end);
      if (call_.int8())
        whole_values(block, begin, end);
      else
        block.over_pieces(begin, end, [&](const KeyBlock::Piece& piece) { values(block, piece); });
    }
  }

  // Of the keys at positions [first, end) does the row see one?
  bool sees(int64_t row, int32_t first, int32_t end) const {
    return last_[row] >= first && first_[row] < end;
  }
  // Cuts off rows at both ends that see none of these keys.
  void trim(int32_t first, int32_t end, int64_t& row_begin, int64_t& row_end) const {
    while (row_begin < row_end && !sees(row_begin, first, end)) ++row_begin;
    while (row_begin < row_end && !sees(row_end - 1, first, end)) --row_end;
  }

  void scores(const KeyBlock& block, const KeyBlock::Piece& piece) const {
    const int32_t* const pages = block.pages_of(piece);
    for (int32_t page = 0; page < piece.count; page += 2) {
      const int32_t column = piece.column + page * kPageTokens;
      int64_t row_begin = piece.row_begin;
      int64_t row_end = piece.row_end;
      const int32_t count = std::min(2, piece.count - page);
      const int32_t first = block.position + column;
      trim(first, first + count * kPageTokens, row_begin, row_end);
      const void* left = key_page(pages[page]);
      const void* right = count == 2 ? key_page(pages[page + 1]) : nullptr;
      TileArgs tile;
      tile.a = q_ + static_cast<size_t>(row_begin * call_.ldq) * call_.operand_bytes();
      tile.lda = call_.ldq;
      tile.b0 = &left;
      tile.b1 = right == nullptr ? nullptr : &right;
      tile.chunks = 1;
      tile.kc = call_.d;
      tile.c = s_ + row_begin * kScoreColumns + column;
      tile.ldc = kScoreColumns;
      tile.rows = row_end - row_begin;
      if (tile.rows <= 0) continue;
      call_.context.key_tile(call_.step.kv.type)(tile);
    }
  }

  void softmax(const KeyBlock& block, int64_t row_begin, int64_t row_end) const {
    const AttentionKernels& kernels = call_.context.kernels->attention;
    SoftmaxArgs args;
    args.s = s_ + row_begin * kScoreColumns;
    args.lds = kScoreColumns;
    args.p = p_ + static_cast<size_t>(row_begin * call_.ldp) * call_.act_bytes();
    args.ldp = call_.ldp;
    args.first = first_ + row_begin;
    args.last = last_ + row_begin;
    args.block_position = block.position;
    const float cap = call_.args.soft_cap;
    args.scale = (cap == 0 ? call_.args.scale : cap) * kLog2E;
    args.cap_scale = cap == 0 ? 0 : call_.args.scale / cap;
    args.m = now_.m + row_begin;
    args.l = now_.l + row_begin;
    args.o = now_.o + row_begin * call_.ldo;
    args.ldo = call_.ldo;
    args.d = call_.d;
    args.rows = row_end - row_begin;
    if (!call_.int8()) {
      (call_.context.act_is_bf16() ? kernels.softmax_bf16 : kernels.softmax_f32)(args);
      return;
    }
    WholeSoftmaxArgs whole;
    whole.scales_stride = point_to_scales(block, row_begin, row_end);
    whole.rows = args;
    whole.corrections = q_corrections_ + row_begin;
    whole.q_scales = q_scales_ + row_begin;
    whole.key_scales = key_scales_ + row_begin * kBlockPages;
    whole.value_scales = value_scales_ + row_begin * kBlockPages;
    whole.p = reinterpret_cast<uint8_t*>(p_) + row_begin * call_.ldp;
    whole.ldp = call_.ldp;
    whole.p_scales = p_scales_ + row_begin * kBlockSpans;
    kernels.softmax_int8(whole);
  }

  // Of each row the scales of its pages; returns what lies between two rows. Where all rows that see a page of the
  // block see the same one they share its scales, for those that see none of it count for nothing.
  int64_t point_to_scales(const KeyBlock& block, int64_t row_begin, int64_t row_end) const {
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
      if (shared) piece.row_begin = row_begin, piece.row_end = end;
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

  // Of a few pages in a row, counted from the first one.
  struct PageRange {
    int32_t first = 0, end = 0;
    bool operator==(const PageRange&) const = default;
  };

  // Rows in groups of a register block, each with the pages of [position, ..) that its positions need: a page
  // that no row of the group sees is not touched. task(begin, end, pages).
  template <class Task>
  void over_seen(int32_t position, int32_t count, int64_t row_begin, int64_t row_end,
                 const Task& task) const {
    const int64_t step = call_.context.kernels->gemm.row_step;
    int64_t begin = row_begin;
    PageRange seen = pages_seen(position, count, begin, std::min(row_end, begin + step));
    while (begin < row_end) {
      int64_t end = std::min(row_end, begin + step);
      PageRange next;
      while (end < row_end) {
        const int64_t group_end = std::min(row_end, end + step);
        next = pages_seen(position, count, end, group_end);
        if (next != seen) break;
        end = group_end;
      }
      if (seen.first < seen.end) task(begin, end, seen);
      begin = end;
      seen = next;
    }
  }

  PageRange pages_seen(int32_t position, int32_t count, int64_t begin, int64_t end) const {
    const int32_t after = *std::max_element(last_ + begin, last_ + end) + 1 - position;
    const int32_t before = *std::min_element(first_ + begin, first_ + end) - position;
    return {std::clamp(before / kPageTokens, 0, count),
            std::clamp((after + kPageTokens - 1) / kPageTokens, 0, count)};
  }

  void values(const KeyBlock& block, const KeyBlock::Piece& piece) const {
    over_seen(block.position + piece.column, piece.count, piece.row_begin, piece.row_end,
              [&](int64_t begin, int64_t end, PageRange seen) {
                multiply_values(block, piece, begin, end, seen);
              });
  }

  void multiply_values(const KeyBlock& block, const KeyBlock::Piece& piece, int64_t begin,
                       int64_t end, PageRange seen) const {
    const KvType type = call_.step.kv.type;
    const size_t panel_bytes = size_t{kPageTokens} * 32 * kv_bytes(type);
    const int32_t* const pages = block.pages_of(piece) + seen.first;
    const int32_t count = seen.end - seen.first;
    const int64_t key = piece.column + seen.first * kPageTokens;
    const std::byte* values[kBlockPages];
    for (int32_t i = 0; i < count; ++i) values[i] = value_page(pages[i]);
    const void* left[kBlockPages];
    const void* right[kBlockPages];
    for (int64_t column = 0; column < call_.d; column += 64) {
      const bool both = column + 32 < call_.d;
      for (int32_t i = 0; i < count; ++i) {
        const std::byte* const panel = values[i] + static_cast<size_t>(column / 32) * panel_bytes;
        left[i] = panel;
        right[i] = panel + panel_bytes;
      }
      TileArgs tile;
      tile.a = p_ + static_cast<size_t>(begin * call_.ldp + key) * call_.act_bytes();
      tile.lda = call_.ldp;
      tile.a_chunk = kPageTokens;
      tile.b0 = left;
      tile.b1 = both ? right : nullptr;
      tile.chunks = count;
      tile.kc = kPageTokens;
      tile.c = now_.o + begin * call_.ldo + column;
      tile.ldc = call_.ldo;
      tile.rows = end - begin;
      tile.accumulate = true;
      call_.context.value_tile(type)(tile);
    }
  }

  // Of a span a row has one sum, whichever pieces its pages are of: rows with the same pages go together.
  void whole_values(const KeyBlock& block, int64_t row_begin, int64_t row_end) const {
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
  void multiply_whole(const std::byte* const* values, int32_t count, int64_t page, int64_t begin,
                      int64_t end) const {
    ValueTileArgs tile;
    tile.p = reinterpret_cast<const uint8_t*>(p_) + begin * call_.ldp + page * kPageTokens;
    tile.ldp = call_.ldp;
    tile.p_scales = p_scales_ + begin * kBlockSpans + page / kSpanPages;
    tile.blocks = values;
    tile.pages = count;
    tile.o = now_.o + begin * call_.ldo;
    tile.ldo = call_.ldo;
    tile.d = call_.d;
    tile.rows = end - begin;
    call_.context.kernels->gemm.tile_values(tile);
  }

  // What int8 needs besides, of each row: a scale and a correction of its query, of each page of a block
  // where the scales of its keys and values are, and of each span the scale of its weights.
  size_t whole_bytes() const {
    const auto n = static_cast<size_t>(rows_);
    return 2 * round_up(n * sizeof(float)) +
           n * (kBlockPages * 2 * sizeof(const float*) + kBlockSpans * sizeof(float));
  }
  void lay_out_whole(std::byte* at) {
    const auto n = static_cast<size_t>(rows_);
    q_scales_ = reinterpret_cast<float*>(at);
    q_corrections_ = reinterpret_cast<int32_t*>(at += round_up(n * sizeof(float)));
    key_scales_ = reinterpret_cast<const float**>(at += round_up(n * sizeof(float)));
    value_scales_ = key_scales_ + n * kBlockPages;
    p_scales_ = reinterpret_cast<float*>(value_scales_ + n * kBlockPages);
  }

  void merge(const SoftmaxState& from) const {
    MergeArgs args;
    args.m = total_.m;
    args.l = total_.l;
    args.o = total_.o;
    args.from_m = from.m;
    args.from_l = from.l;
    args.from_o = from.o;
    args.ldo = call_.ldo;
    args.d = call_.d;
    args.rows = rows_;
    call_.context.kernels->attention.merge(args);
  }

  // Scores of one more key each, whose value is 0.
  void merge_sinks() const {
    for (int64_t r = 0; r < rows_; ++r)
      now_.m[r] = call_.args.sinks[head_ * call_.group + r % call_.group] * kLog2E;
    std::fill_n(now_.l, rows_, 1.0f);
    std::memset(now_.o, 0, static_cast<size_t>(rows_ * call_.ldo) * sizeof(float));
    merge(now_);
  }

  void finish() const {
    if (call_.args.sinks != nullptr) merge_sinks();
    const AttentionKernels& kernels = call_.context.kernels->attention;
    const int64_t head_dim = call_.step.kv.head_dim;
    const ActivationBuffer& out = call_.args.out;
    for (int64_t r = 0; r < rows_; ++r) {
      std::byte* const to = out.data + head_offset(out, r);
      prefetch_to_write(out.data + head_offset(out, r + kHeadsAhead),
                        static_cast<size_t>(head_dim) * call_.act_bytes());
      const float* const o = total_.o + r * call_.ldo;
      if (call_.context.act_is_bf16()) {
        kernels.finish_bf16(o, total_.l[r], head_dim, reinterpret_cast<uint16_t*>(to));
      } else {
        kernels.finish_f32(o, total_.l[r], head_dim, reinterpret_cast<float*>(to));
      }
    }
  }

  // Asks for the values of this key block and the keys of the next one to be in L2: pages lie anywhere
  // in memory, so the hardware does not see the next one coming.
  void prefetch_next() const {
    for (const int32_t page : now_block_.pages) prefetch(value_page(page));
    for (const int32_t page : next_block_.pages) prefetch(key_page(page));
  }

  void prefetch(const std::byte* data) const {
    const auto bytes = static_cast<int64_t>(call_.step.kv.block_bytes());
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 0, 2);
  }

  const std::byte* value_page(int32_t page) const {
    return call_.step.pool + call_.step.kv.value_offset(page, call_.args.layer, head_);
  }
  const std::byte* key_page(int32_t page) const {
    return call_.step.pool + call_.step.kv.key_offset(page, call_.args.layer, head_);
  }

  const float* scales_behind(const std::byte* block) const {
    return reinterpret_cast<const float*>(block + call_.step.kv.numbers_bytes());
  }

  const Call& call_;
  const AttentionPlan& plan_;
  const AttentionTile& tile_;
  const int64_t head_;
  const int64_t rows_;
  std::byte* q_;
  std::byte* p_;
  float* s_;
  int32_t* first_;  // key that a packed row sees, and the last one
  int32_t* last_;
  SoftmaxState now_;    // of the current chunk
  SoftmaxState total_;  // of the chunks before it
  KeyBlock now_block_;
  KeyBlock next_block_;
  // Of int8 keys and values only:
  float* q_scales_ = nullptr;
  int32_t* q_corrections_ = nullptr;
  const float** key_scales_ = nullptr;
  const float** value_scales_ = nullptr;
  float* p_scales_ = nullptr;
};

// A tile whose chunks are separate items.
struct SplitTile {
  int32_t tile;
  int32_t slot;
  int32_t chunks;
};

std::vector<SplitTile> split_tiles(const AttentionPlan& plan) {
  std::vector<SplitTile> split;
  for (const AttentionItem& item : plan.items) {
    const AttentionTile& tile = plan.tiles[static_cast<size_t>(item.tile)];
    if (item.chunk >= 0 && item.chunk == first_chunk(tile))
      split.push_back({item.tile, item.slot, end_chunk(tile) - first_chunk(tile)});
  }
  return split;
}

}  // namespace

void CpuStep::attention(const AttentionArgs& args) {
  const AttentionPlan& plan = arrays_.attention[static_cast<size_t>(args.plan)];
  const KvLayout& kv = arrays_.kv;
  PREFIX_CHECK(kv.type == context_.types.kv);
  PREFIX_CHECK(arrays_.heads % kv.kv_heads == 0);
  int64_t tile_rows = 0;
  for (const AttentionTile& tile : plan.tiles)
    tile_rows = std::max<int64_t>(tile_rows, tile.row_end - tile.row_begin);
  const int64_t group = arrays_.heads / kv.kv_heads;
  const int64_t d = kv.d_padded();
  Call call{context_, arrays_, plan, args, group, d, d + 16, tile_rows * group};
  if (plan.partial_slots > 0) {
    call.partials =
        context_.partials->reserve(static_cast<size_t>(plan.partial_slots) *
                                   static_cast<size_t>(kv.kv_heads) * call.state_bytes());
  }
  // Heads one after the other: what many tiles read of one stays in L2.
  const auto over_heads = [&](int64_t n, auto&& task) {
    context_.threads->run(n * kv.kv_heads, [&](int64_t index, int worker) {
      task(index % n, index / n, context_.scratch[worker]);
    });
  };
  over_heads(static_cast<int64_t>(plan.items.size()),
             [&](int64_t index, int64_t head, Scratch& memory) {
               const AttentionItem& item = plan.items[static_cast<size_t>(index)];
               const AttentionTile& tile = plan.tiles[static_cast<size_t>(item.tile)];
               context_.kernels->gemm.begin();
               ItemTask(call, tile, head, memory).run(item);
               context_.kernels->gemm.end();
             });
  const std::vector<SplitTile> split = split_tiles(plan);
  over_heads(static_cast<int64_t>(split.size()), [&](int64_t index, int64_t head, Scratch& memory) {
    const SplitTile& part = split[static_cast<size_t>(index)];
    const AttentionTile& tile = plan.tiles[static_cast<size_t>(part.tile)];
    ItemTask(call, tile, head, memory).merge_chunks(part.slot, part.chunks);
  });
}

}  // namespace prefix::ops
