// A prompt in one step, or in many that each continue from a stored state: the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "model/files/model_files.h"
#include "model/model.h"
#include "ops/devices.h"
#include "plan/step.h"
#include "support/golden.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using testing_support::Golden;
using testing_support::golden_folder;
using testing_support::golden_models;

struct Runner {
  Runner(const std::string& name, const ops::NumericTypes& types)
      : device(ops::make_device({.name = "cpu", .types = types})),
        model(open_model(golden_models() + "/" + name), *device, 256, nullptr) {}

  // Logits after every token, computed `piece` tokens at a time.
  std::vector<float> run(const std::vector<int32_t>& tokens, int32_t piece) {
    const ModelConfig& c = model.config();
    const ops::KvLayout layout = model.kv_layout();
    const int32_t state_pages = model.state_pages();
    const int32_t pages = 16 + 2 * state_pages;
    PagePool pool(pages);
    Tree tree(pool);
    KvMemory kv(*device, layout, pages);
    const NodeId root = tree.add_root();
    const NodeId leaf = tree.attach(tree.match(root, tokens), tokens, {});
    StepBuilder builder(tree, {c.heads, c.kv_heads, 1, device->tile_rows(), state_pages});
    const std::vector<int32_t> state = tree.take_state_pages(state_pages);
    const auto length = static_cast<int32_t>(tokens.size());
    std::vector<float> out;
    for (int32_t at = 0; at < length; at += piece) {
      const int32_t end = std::min(at + piece, length);
      StepPlan plan;
      builder.begin();
      EXPECT_EQ(builder.scan(leaf, at, end, end - at).pending, end - at);
      if (at > 0) builder.start(leaf, at, state);
      builder.build(plan);
      builder.store(leaf, end - 1, state, plan);
      const auto step = model.forward(plan, kv, nullptr);
      read(*step, end - at, out);
      step->end();
      for (const StepPlan::Commit& commit : plan.commits)
        tree.set_computed(commit.node, commit.computed);
    }
    return out;
  }

  void read(ops::Step& step, int32_t rows, std::vector<float>& out) {
    std::vector<int32_t> all(static_cast<size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    ops::HeadArrays arrays;
    arrays.rows = all;
    model.select(step, arrays);
    for (int64_t at = 0; at < rows; at += model.logit_rows()) {
      const int64_t end = std::min<int64_t>(rows, at + model.logit_rows());
      const ops::LogitBlock block = model.logits(at, end);
      for (int64_t row = at; row < end; ++row)
        out.insert(out.end(), block.row(row), block.row(row) + block.n);
    }
  }

  std::unique_ptr<ops::Device> device;
  Model model;
};

class RecurrentSteps : public testing::TestWithParam<const char*> {};

TEST_P(RecurrentSteps, CutAnywhereGiveTheSameBits) {
  const Golden golden(golden_folder() + "/logits/" + GetParam());
  const auto tokens = golden.index.at("prompts").back().at("tokens").get<std::vector<int32_t>>();
  ASSERT_EQ(tokens.size(), 80u);
  for (const auto& types : {ops::kF32Types, ops::kBf16Types}) {
    Runner runner(GetParam(), types);
    const std::vector<float> whole = runner.run(tokens, 80);
    for (const int32_t piece : {1, 2, 7, 32, 79}) {
      const std::vector<float> cut = runner.run(tokens, piece);
      ASSERT_EQ(cut.size(), whole.size());
      EXPECT_EQ(std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << piece << " tokens at a time";
    }
    // Another history is another answer.
    std::vector<int32_t> other = tokens;
    other[3] = (other[3] + 1) % runner.model.config().vocab_size;
    const std::vector<float> changed = runner.run(other, 7);
    EXPECT_NE(std::memcmp(&changed[changed.size() - 100], &whole[whole.size() - 100], 400), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentSteps,
                         testing::Values("granite-h-base", "granite-h-groups", "granite-h-odd",
                                         "granite-h-wide", "granite-h-clamp", "qwen35-base",
                                         "qwen35-group", "qwen35-odd", "qwen35-wide", "qwen35-bias",
                                         "qwen35-long", "nemotron-h-base", "nemotron-h-groups",
                                         "nemotron-h-odd", "nemotron-h-wide", "nemotron-h-clamp",
                                         "lfm2-base", "lfm2-bias", "lfm2-odd", "lfm2-long"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace prefix
