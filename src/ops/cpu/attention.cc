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
// Of int8 keys and values 1. is an exact sum of whole numbers, of Q quantised row by row; the
// scales of row and key come in with 2. There the scale of each value's token goes into P, and P is
// rounded to bytes with one scale for a row and span of four pages, so that 3. is an exact sum of
// whole numbers in each span. Spans lie at absolute positions, too.
//
// What makes the bits of a row independent of everything but its position and keys: tile products
// sum each element in ascending k (gemm_kernels.h); key blocks and chunks lie at absolute
// positions; step 2 sees a row's scores only; a masked key weighs nothing, so that no sum
// changes; chunks are merged in order by the same code, in one item or from partial slots, and one
// of which the row sees nothing is an empty state. A sink is a state of its own, merged in the end.
#include <algorithm>
#include <vector>

#include "base/status.h"
#include "ops/cpu/attention_task.h"

namespace prefix::ops {
namespace {

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
  AttentionCall call{context_,
                     arrays_,
                     plan,
                     args,
                     group,
                     PackedRow(kv, context_.act_bytes(), context_.kernels->gemm),
                     SoftmaxStates(tile_rows * group, kv.d_padded())};
  if (plan.partial_slots > 0)
    call.partials =
        context_.partials->reserve(call.states.partial_bytes(plan.partial_slots, kv.kv_heads));
  // Heads one after the other: what many tiles read of one stays in L2.
  const auto over_heads = [&](int64_t n, auto&& task) {
    context_.threads->run(n * kv.kv_heads,
                          [&](int64_t index, int worker) { task(index % n, index / n, worker); });
  };
  over_heads(static_cast<int64_t>(plan.items.size()), [&](int64_t index, int64_t head, int worker) {
    const AttentionItem& item = plan.items[static_cast<size_t>(index)];
    const AttentionTile& tile = plan.tiles[static_cast<size_t>(item.tile)];
    context_.kernels->gemm.begin();
    AttentionTask(call, tile, head, worker).run(item);
    context_.kernels->gemm.end();
  });
  const std::vector<SplitTile> split = split_tiles(plan);
  over_heads(static_cast<int64_t>(split.size()), [&](int64_t index, int64_t head, int worker) {
    const SplitTile& part = split[static_cast<size_t>(index)];
    const AttentionTile& tile = plan.tiles[static_cast<size_t>(part.tile)];
    AttentionTask(call, tile, head, worker).merge_chunks(part.slot, part.chunks);
  });
}

}  // namespace prefix::ops
