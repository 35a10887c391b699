// The walk of a task over key blocks, and what does not depend on the type of keys and values.
#include "ops/cpu/attention_task.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/cpu/prefetch.h"

namespace prefix::ops {
namespace {

constexpr int32_t kChunkBlocks = kKeyChunk / kKeyBlock;
// Nothing widens the first panels of a block meanwhile, which fewer rows do not make up for.
constexpr int64_t kLeastWidenedRows = 36;
constexpr float kLog2E = 1.44269504088896340736f;
// What the kernels are written for.
static_assert(kKeyBlock == 256 && kPageTokens == 32 && kBlockPages * kPageTokens == kKeyBlock);

}  // namespace

AttentionTask::AttentionTask(const AttentionCall& call, const AttentionTile& tile, int64_t head,
                             int worker)
    : call_(call),
      plan_(call.plan),
      tile_(tile),
      head_(head),
      rows_((tile.row_end - tile.row_begin) * call.group) {
  const TaskMemory memory(call.row, rows_, call.states);
  std::byte* at = call.context.scratch[worker].reserve(memory.bytes());
  q_ = at;
  p_ = (at += memory.queries);
  s_ = reinterpret_cast<float*>(at += memory.weights);
  first_ = reinterpret_cast<int32_t*>(at += memory.scores);
  last_ = reinterpret_cast<int32_t*>(at += memory.positions);
  now_ = call.states.at(at += memory.positions);
  total_ = call.states.at(at += memory.state);
  if (call.int8()) lay_out_whole(at + memory.state, memory.whole_line);
  if (widens(rows_))
    wide_.emplace(call.context.kernels->gemm, call.context.wide[worker],
                  std::max<int64_t>(call.d, kKeyBlock));
  for (int64_t r = 0; r < rows_; ++r) {
    const auto row = static_cast<size_t>(tile.row_begin + r / call.group);
    const SeenKeys seen = seen_keys(plan_, row, call.step.positions[row]);
    first_[r] = seen.first;
    last_[r] = seen.last;
  }
}

void AttentionTask::run(const AttentionItem& item) {
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

void AttentionTask::merge_chunks(int32_t slot, int32_t chunks) {
  total_ = call_.partial(slot, head_);
  for (int32_t c = 1; c < chunks; ++c) merge(call_.partial(slot + c, head_));
  finish();
}

// Rows of the tile -> packed rows [token][g][d], zero in the padding.
void AttentionTask::gather_queries() {
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

void AttentionTask::walk_chunk(int32_t chunk) {
  const int32_t first_block = std::max(chunk * kChunkBlocks, tile_.first_key / kKeyBlock);
  const int32_t end_block =
      std::min((chunk + 1) * kChunkBlocks, tile_.last_position / kKeyBlock + 1);
  std::fill_n(now_.m, rows_, -std::numeric_limits<float>::infinity());
  std::fill_n(now_.l, rows_, 0.0f);
  std::memset(now_.o, 0, static_cast<size_t>(rows_ * call_.ldo()) * sizeof(float));
  for (int32_t block = first_block; block < end_block; ++block) {
    gather_block(block, block_);
    walk_block(block_);
  }
}

void AttentionTask::gather_block(int32_t index, KeyBlock& block) const {
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

void AttentionTask::walk_block(const KeyBlock& block) {
  if (block.pieces.empty()) return;
  int64_t row_begin = rows_;
  int64_t row_end = 0;
  for (const KeyBlock::Piece& piece : block.pieces) {
    row_begin = std::min(row_begin, piece.row_begin);
    row_end = std::max(row_end, piece.row_end);
  }
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

void AttentionTask::scores(const KeyBlock& block, const KeyBlock::Piece& piece) {
  const int32_t* const pages = block.pages_of(piece);
  const void* keys[kBlockPages];
  for (int32_t page = 0; page < piece.count; ++page) keys[page] = key_page(pages[page]);
  for (int32_t page = 0; page < piece.count; page += 2) {
    const int32_t column = piece.column + page * kPageTokens;
    int64_t row_begin = piece.row_begin;
    int64_t row_end = piece.row_end;
    const int32_t count = std::min(2, piece.count - page);
    const int32_t first = block.position + column;
    trim(first, first + count * kPageTokens, row_begin, row_end);
    TileArgs tile;
    tile.a = q_ + static_cast<size_t>(row_begin * call_.ldq) * call_.query_bytes();
    tile.lda = call_.ldq;
    tile.b0 = keys + page;
    tile.b1 = count == 2 ? keys + page + 1 : nullptr;
    tile.chunks = 1;
    tile.kc = call_.d;
    tile.c = s_ + row_begin * kScoreColumns + column;
    tile.ldc = kScoreColumns;
    tile.rows = row_end - row_begin;
    if (tile.rows <= 0) continue;
    Panels next;
    if (page + 3 < piece.count) next = {keys + page + 2, keys + page + 3, 1, call_.d};
    multiply(tile, next);
  }
}

void AttentionTask::softmax(const KeyBlock& block, int64_t row_begin, int64_t row_end) const {
  SoftmaxArgs args;
  args.s = s_ + row_begin * kScoreColumns;
  args.lds = kScoreColumns;
  args.p = p_ + static_cast<size_t>(row_begin * call_.ldp) * call_.weight_bytes();
  args.ldp = call_.ldp;
  args.first = first_ + row_begin;
  args.last = last_ + row_begin;
  args.block_position = block.position;
  const float cap = call_.args.soft_cap;
  args.scale = (cap == 0 ? call_.args.scale : cap) * kLog2E;
  args.cap_scale = cap == 0 ? 0 : call_.args.scale / cap;
  args.m = now_.m + row_begin;
  args.l = now_.l + row_begin;
  args.o = now_.o + row_begin * call_.ldo();
  args.ldo = call_.ldo();
  args.d = call_.d;
  args.rows = row_end - row_begin;
  if (call_.int8()) return whole_softmax(block, row_begin, args);
  const AttentionKernels& kernels = call_.context.kernels->attention;
  (call_.context.act_is_bf16() ? kernels.softmax_bf16 : kernels.softmax_f32)(args);
}

AttentionTask::PageRange AttentionTask::pages_seen(int32_t position, int32_t count, int64_t begin,
                                                   int64_t end) const {
  const int32_t after = *std::max_element(last_ + begin, last_ + end) + 1 - position;
  const int32_t before = *std::min_element(first_ + begin, first_ + end) - position;
  return {std::clamp(before / kPageTokens, 0, count),
          std::clamp((after + kPageTokens - 1) / kPageTokens, 0, count)};
}

void AttentionTask::values(const KeyBlock& block, const KeyBlock::Piece& piece) {
  over_seen(block.position + piece.column, piece.count, piece.row_begin, piece.row_end,
            [&](int64_t begin, int64_t end, PageRange seen) {
              multiply_values(block, piece, begin, end, seen);
            });
}

void AttentionTask::multiply_values(const KeyBlock& block, const KeyBlock::Piece& piece,
                                    int64_t begin, int64_t end, PageRange seen) {
  const int64_t panel_bytes = int64_t{kPageTokens} * 32 * kv_bytes(call_.step.kv.type);
  const int32_t* const pages = block.pages_of(piece) + seen.first;
  const int32_t count = seen.end - seen.first;
  const int64_t key = piece.column + seen.first * kPageTokens;
  const int64_t panels = call_.d / 32;
  // Panels of the columns that are multiplied, and of the next ones.
  const void* blocks[4][kBlockPages];
  const auto point = [&](int64_t panel) {
    for (int32_t i = 0; i < count; ++i)
      blocks[panel % 4][i] = value_page(pages[i]) + panel * panel_bytes;
  };
  for (int64_t panel = 0; panel < std::min<int64_t>(2, panels); ++panel) point(panel);
  for (int64_t panel = 0; panel < panels; panel += 2) {
    for (int64_t i = panel + 2; i < std::min(panel + 4, panels); ++i) point(i);
    const auto panels_at = [&](int64_t i) -> Panels {
      if (i >= panels) return {};
      return {blocks[i % 4], i + 1 < panels ? blocks[(i + 1) % 4] : nullptr, count, kPageTokens};
    };
    const Panels now = panels_at(panel);
    TileArgs tile;
    tile.a = p_ + static_cast<size_t>(begin * call_.ldp + key) * call_.act_bytes();
    tile.lda = call_.ldp;
    tile.a_chunk = kPageTokens;
    tile.b0 = now.b0;
    tile.b1 = now.b1;
    tile.chunks = count;
    tile.kc = kPageTokens;
    tile.c = now_.o + begin * call_.ldo() + panel * 32;
    tile.ldc = call_.ldo();
    tile.rows = end - begin;
    tile.accumulate = true;
    multiply(tile, panels_at(panel + 2));
  }
}

bool AttentionTask::widens(int64_t rows) const {
  return call_.step.kv.type == KvType::kBf16 && rows >= kLeastWidenedRows &&
         WidePanels::worth(call_.context.kernels->gemm, rows);
}

void AttentionTask::multiply(const TileArgs& tile, const Panels& next) {
  const GemmKernels& gemm = call_.context.kernels->gemm;
  if (widens(tile.rows)) return wide_->multiply(tile, next);
  switch (call_.step.kv.type) {
    case KvType::kInt8:
      return gemm.tile_int8(tile);
    case KvType::kF32:
      return gemm.tile_f32(tile);
    case KvType::kBf16:
      return gemm.tile_bf16(tile);
  }
}

void AttentionTask::merge(const SoftmaxState& from) const {
  MergeArgs args;
  args.m = total_.m;
  args.l = total_.l;
  args.o = total_.o;
  args.from_m = from.m;
  args.from_l = from.l;
  args.from_o = from.o;
  args.ldo = call_.ldo();
  args.d = call_.d;
  args.rows = rows_;
  call_.context.kernels->attention.merge(args);
}

// Scores of one more key each, whose value is 0.
void AttentionTask::merge_sinks() const {
  for (int64_t r = 0; r < rows_; ++r)
    now_.m[r] = call_.args.sinks[head_ * call_.group + r % call_.group] * kLog2E;
  std::fill_n(now_.l, rows_, 1.0f);
  std::memset(now_.o, 0, static_cast<size_t>(rows_ * call_.ldo()) * sizeof(float));
  merge(now_);
}

void AttentionTask::finish() const {
  if (call_.args.sinks != nullptr) merge_sinks();
  const AttentionKernels& kernels = call_.context.kernels->attention;
  const int64_t head_dim = call_.step.kv.head_dim;
  const ActivationBuffer& out = call_.args.out;
  for (int64_t r = 0; r < rows_; ++r) {
    std::byte* const to = out.data + head_offset(out, r);
    prefetch_to_write(out.data + head_offset(out, r + kHeadsAhead),
                      static_cast<size_t>(head_dim) * call_.act_bytes());
    const float* const o = total_.o + r * call_.ldo();
    if (call_.context.act_is_bf16()) {
      kernels.finish_bf16(o, total_.l[r], head_dim, reinterpret_cast<uint16_t*>(to));
    } else {
      kernels.finish_f32(o, total_.l[r], head_dim, reinterpret_cast<float*>(to));
    }
  }
}

}  // namespace prefix::ops
