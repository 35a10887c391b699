// Layer by layer: what a model with whole numbers throughout leaves in its pages, and its logits,
// have the same bits at every level, of AMX on a model of its registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "model/files/model_files.h"
#include "model/model.h"
#include "ops/level_tables.h"
#include "plan/step.h"
#include "support/golden.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using testing_support::golden_models;

ops::NumericTypes whole_types() {
  ops::NumericTypes types = ops::kBf16Types;
  types.kv = ops::KvType::kInt8;
  types.int8 = ops::kInt8All & ~ops::int8_bit(ops::MatrixKind::kHead);
  return types;
}

struct Result {
  std::vector<std::vector<std::byte>> layers;  // of keys and values
  std::vector<float> logits;
};

Result run(const std::string& name, const ops::KernelTable& kernels, int threads) {
  const ops::CpuOptions options{whole_types(), "auto", std::make_shared<Threads>(threads)};
  ops::CpuDevice device(options, kernels);
  Model model(open_model(golden_models() + "/" + name), device, 256, nullptr);
  const ModelConfig& c = model.config();
  const ops::KvLayout layout = model.kv_layout();
  const int32_t state_pages = model.state_pages();
  const int32_t pages = 16 + 2 * state_pages;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 75; ++i) tokens.push_back((1 + i * i * 7) % c.vocab_size);
  const auto length = static_cast<int32_t>(tokens.size());
  PagePool pool(pages);
  Tree tree(pool);
  KvMemory kv(device, layout, pages);
  const NodeId leaf = tree.attach(tree.match(tree.add_root(), tokens), tokens, {});
  StepBuilder builder(
      tree, {c.heads, c.kv_heads, threads, device.tile_rows(), state_pages, model.windows()});
  StepPlan plan;
  builder.begin();
  if (state_pages > 0) {
    EXPECT_EQ(builder.scan(leaf, 0, length, length).pending, length);
  } else {
    EXPECT_EQ(builder.take(leaf, length, length), length);
  }
  builder.build(plan);
  const auto step = model.forward(plan, kv, nullptr);
  Result result;
  for (int32_t layer = 0; layer < layout.layers; ++layer) {
    std::vector<std::byte>& bytes = result.layers.emplace_back();
    for (int32_t page = 0; page < (length + kPageTokens - 1) / kPageTokens; ++page) {
      const std::byte* const at =
          kv.data() +
          layout.key_offset(plan.slots[static_cast<size_t>(page * kPageTokens)].page, layer, 0);
      bytes.insert(bytes.end(), at, at + layout.layer_bytes());
    }
  }
  std::vector<int32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), 0);
  ops::HeadArrays arrays;
  arrays.rows = all;
  model.select(*step, arrays);
  for (int64_t at = 0; at < length; at += model.logit_rows()) {
    const int64_t end = std::min<int64_t>(length, at + model.logit_rows());
    const ops::LogitBlock block = model.logits(at, end);
    for (int64_t row = at; row < end; ++row)
      result.logits.insert(result.logits.end(), block.row(row), block.row(row) + block.n);
  }
  step->end();
  return result;
}

class LayersOfLevels : public testing::TestWithParam<const char*> {};

TEST_P(LayersOfLevels, AreEqualBits) {
  const std::vector<ops::testing::LevelTable> tables = ops::testing::level_tables();
  const Result want = run(GetParam(), tables.front().kernels, 1);
  EXPECT_FALSE(want.logits.empty());
  for (size_t i = 1; i < tables.size(); ++i) {
    SCOPED_TRACE(tables[i].name);
    const Result got = run(GetParam(), tables[i].kernels, 2);
    for (size_t layer = 0; layer < want.layers.size(); ++layer)
      ASSERT_EQ(got.layers[layer], want.layers[layer])
          << "layer " << layer << " of keys and values";
    ASSERT_EQ(got.logits.size(), want.logits.size());
    EXPECT_EQ(
        std::memcmp(got.logits.data(), want.logits.data(), want.logits.size() * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LayersOfLevels,
                         testing::Values("qwen3-base", "llama-base", "gemma2-base", "gpt-oss-base",
                                         "qwen3-moe-base", "qwen35-base", "granite-h-base",
                                         "nemotron-h-base", "lfm2-base", "olmo2-base"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace prefix
