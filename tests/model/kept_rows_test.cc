// The last layer computes what is read of a step, and that has the bits which it has beside all
// other rows.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <span>
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

using testing_support::golden_models;
using Rows = std::vector<int32_t>;

// Three texts that begin alike, in one step.
class KeptRows : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int32_t kCommon = 100, kLength = 180, kTexts = 3;
  static constexpr int32_t kRows = kCommon + kTexts * (kLength - kCommon);

  // Logits of rows `reads`.
  std::vector<float> run(const ops::NumericTypes& types, int32_t threads, const Rows& reads,
                         bool keep) {
    ops::DeviceOptions options{.name = "cpu", .types = types};
    options.threads = std::make_shared<Threads>(threads);
    const auto device = ops::make_device(options);
    Model model(open_model(golden_models() + "/" + GetParam()), *device, 256, nullptr);
    const ModelConfig& c = model.config();
    const ops::KvLayout layout = model.kv_layout();
    const int32_t state_pages = model.state_pages();
    const int32_t pages = 32 + 8 * state_pages;
    PagePool pool(pages);
    Tree tree(pool);
    KvMemory kv(*device, layout, pages);
    const NodeId root = tree.add_root();
    StepBuilder builder(
        tree, {c.heads, c.kv_heads, threads, device->tile_rows(), state_pages, model.windows(),
               false, keep && device->keeps_rows(), model.last_attention()});
    std::vector<NodeId> leaves;
    for (int32_t text = 0; text < kTexts; ++text) {
      Rows tokens;
      for (int32_t i = 0; i < kLength; ++i)
        tokens.push_back((1 + i * i * 7 + (i < kCommon ? 0 : text)) % c.vocab_size);
      leaves.push_back(tree.attach(tree.match(root, tokens), tokens, {}));
    }
    builder.begin();
    int32_t rows = 0;
    for (const NodeId leaf : leaves)
      rows += state_pages > 0 ? builder.scan(leaf, 0, kLength, kRows).rows()
                              : builder.take(leaf, kLength, kRows);
    EXPECT_EQ(rows, kRows);
    StepPlan plan;
    builder.build(plan);
    plan.reads = reads;
    builder.keep_reads(plan);
    EXPECT_EQ(plan.kept.on, keep);
    const auto step = model.forward(plan, kv, nullptr);
    EXPECT_EQ(step->rows(), keep ? std::ssize(reads) : kRows);
    EXPECT_EQ(std::ssize(step->not_finite()), kRows);
    std::vector<float> logits;
    if (!reads.empty()) {
      ops::HeadArrays arrays;
      arrays.rows = reads;
      model.select(*step, arrays);
    }
    for (int64_t at = 0; at < std::ssize(reads); at += model.logit_rows()) {
      const int64_t end = std::min<int64_t>(std::ssize(reads), at + model.logit_rows());
      const ops::LogitBlock block = model.logits(at, end);
      for (int64_t row = at; row < end; ++row)
        logits.insert(logits.end(), block.row(row), block.row(row) + block.n);
    }
    step->end();
    return logits;
  }
};

TEST_P(KeptRows, HaveTheBitsOfAllRows) {
  Rows many(kRows / 2);  // in blocks of rows (ops/op.h), the others are too few for that
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int32_t>(2 * i + i % 2);
  const Rows ends = {kLength - 1, kLength + 79, kLength + 159};
  for (const ops::NumericTypes& types : {ops::kF32Types, ops::kBf16Types}) {
    for (const int32_t threads : {1, 2}) {
      for (const Rows& reads : {many, ends, Rows{0}, Rows{}}) {
        SCOPED_TRACE(testing::Message() << reads.size() << " rows, " << threads << " threads");
        const std::vector<float> want = run(types, threads, reads, false);
        const std::vector<float> got = run(types, threads, reads, true);
        ASSERT_EQ(got.size(), want.size());
        EXPECT_TRUE(want.empty() ||
                    std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KeptRows,
                         testing::Values("qwen3-base", "gemma2-base", "gpt-oss-base",
                                         "qwen3-moe-base", "qwen35-base", "granite-h-base",
                                         "nemotron-h-base", "lfm2-base", "olmo2-base"),
                         [](const auto& model) {
                           std::string name = model.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace prefix
