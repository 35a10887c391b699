// The memory of softmax states that tasks of attention leave for each other.
#include "ops/cpu/attention_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/op.h"
#include "plan/step.h"

namespace prefix::ops {
namespace {

// Of the plan of a step that computes the last `rows` tokens of a path.
size_t bytes_of_plan(const StepShape& shape, int32_t tokens, int32_t rows, int64_t d_padded) {
  PagePool pool(1000);
  Tree tree(pool);
  const std::vector<int32_t> path(static_cast<size_t>(tokens), 1);
  const NodeId node = tree.attach(tree.match(tree.add_root(), path), path, {});
  tree.set_computed(node, tokens - rows);
  StepBuilder builder(tree, shape);
  StepPlan plan;
  builder.begin();
  EXPECT_EQ(builder.take(node, tokens, rows), rows);
  builder.build(plan);
  const AttentionPlan& attention = plan.attention.front();
  int64_t tile_rows = 0;
  for (const AttentionTile& tile : attention.tiles)
    tile_rows = std::max<int64_t>(tile_rows, tile.row_end - tile.row_begin);
  const SoftmaxStates states(tile_rows * shape.heads / shape.kv_heads, d_padded);
  return states.partial_bytes(attention.partial_slots, shape.kv_heads);
}

TEST(AttentionStates, WorkspaceHoldsThoseOfTilesThatAreCut) {
  constexpr int32_t kRows = 500;
  for (const int32_t threads : {1, 2, 12}) {
    const StepShape step{.heads = 8, .kv_heads = 2, .threads = threads};
    for (const int32_t tokens : {kKeyChunk, kKeyChunk + 600, 3 * kKeyChunk}) {
      ReserveShape shape;
      shape.rows = kRows;
      shape.heads = step.heads;
      shape.pages = 1000;
      shape.positions = tokens;
      shape.kv = {KvType::kBf16, 1, step.kv_heads, 80};
      size_t most = 0;
      for (int32_t rows = 1; rows <= kRows; rows += rows < 30 ? 1 : 23)
        most = std::max(most, bytes_of_plan(step, tokens, rows, shape.kv.d_padded()));
      EXPECT_EQ(most > 0, tokens > kKeyChunk);
      EXPECT_EQ(max_partial_bytes(shape, threads), most) << threads << " threads, " << tokens;
    }
  }
}

}  // namespace
}  // namespace prefix::ops
