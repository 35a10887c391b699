#include "ops/gpu/workspace.h"

#include <algorithm>

#include "ops/gpu/attention_schedule.h"
#include "ops/gpu/decode_schedule.h"
#include "ops/gpu/staging.h"

namespace prefix::ops::gpu {
namespace {

constexpr int64_t kBlockRows = 128;               // packed rows of the largest item
constexpr int64_t kWindowRows = 16;               // of a narrow one
constexpr int64_t kMaxCleared = 1 << 14;          // pages that a step clears
constexpr int64_t kMaxListed = int64_t{1} << 22;  // pages that a step reads: 134 million tokens

}  // namespace

Workspace GpuSizes::workspace(const ReserveShape& shape) const {
  const int64_t rows = (shape.rows + 63) / 64 * 64;  // padded_rows() adds no more
  const int64_t kv_heads = shape.kv.kv_heads;
  const int64_t packed = rows * (shape.heads / kv_heads);
  const int64_t windows = packed / kWindowRows + 2 * (packed / kBlockRows + 1);
  // One walk over the shared and one over the own part of each row's path, and what is cut so that
  // every processor has work.
  const int64_t cuts = 8 * int64_t{processors_} / kv_heads + 1;
  int64_t states = 2 * packed + cuts * kBlockRows;
  // One group of the longest path, cut where invariant plans cut.
  states += std::min(packed, kBlockRows) * (shape.positions / kKeyChunk + 1);
  if (shape.kv.type != KvType::kBf16) states = 0;
  const int64_t items = 4 * windows + 2 * cuts * 8 + 2 * rows;
  const int64_t runs = 8 * rows + 4 * items;

  Workspace w;
  const auto bytes = [](int64_t count, size_t size) { return static_cast<size_t>(count) * size; };
  w.gated = bytes(rows * 2 * whole_panels(shape.inner), act_bytes());
  w.max_partials = static_cast<int32_t>(std::min<int64_t>(states, INT32_MAX));
  w.partials = bytes(w.max_partials * kv_heads * (shape.kv.d_padded() + 2), sizeof(float));
  w.arrived = bytes(windows * kv_heads, sizeof(int32_t));

  const int64_t listed =
      std::min({shape.pages, rows * (shape.positions / kPageTokens + 1), kMaxListed});
  const auto room = [&](int64_t count, size_t size) { return Staging::room(bytes(count, size)); };
  const size_t row_numbers = room(rows, sizeof(int32_t));
  w.step = 5 * row_numbers;  // tokens, positions, rope_rows, reads, not_finite
  w.step += room(rows, sizeof(KvSlot)) + room(rows, sizeof(PageCopy));
  w.step += room(kMaxCleared, sizeof(int32_t));
  w.step += room(listed + 4 * rows, sizeof(int32_t));
  w.step += room(items, sizeof(WorkItem)) + room(items, sizeof(WideItem)) +
            room(runs, sizeof(KvRun)) + room(windows, sizeof(ReductionGroup));
  // Whole paths of every block of rows.
  w.step +=
      room(std::min((packed / kBlockRows + cuts) * (shape.positions / kPageTokens + kFoldedPages),
                    kMaxListed),
           sizeof(WidePage));
  w.step += room(2 * int64_t{processors_}, sizeof(DecodeSplit)) +
            room(std::min(int64_t{kMaxDecodePages}, rows * (shape.positions / kPageTokens + 1)),
                 sizeof(DecodePage));
  w.step += row_numbers + room(rows, sizeof(AttentionTile));  // of kAttentionSlow: tiles
  w.heads = room(kTargetsOfARow * rows, sizeof(LogitAt)) + 2 * row_numbers;
  w.logit_parts = bytes(shape.logit_rows * kMaxLogitParts,
                        std::max(sizeof(LogitPart), kMaxCandidates * sizeof(uint64_t)));
  return w;
}

}  // namespace prefix::ops::gpu
