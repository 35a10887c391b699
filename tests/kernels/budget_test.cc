// The memory of an engine on a GPU: all of it is taken when the engine is made, the estimate knows
// how much that is, and no step takes more.
#include "kernels/engines.h"
#include "ops/gpu/workspace.h"

namespace prefix {
namespace {

class GpuBudget : public EmulatedEngine {
 protected:
  double used_bytes() {
    return static_cast<double>(gpu().properties().total_bytes - gpu().free_bytes());
  }
};

TEST_F(GpuBudget, TheEstimateIsWhatTheDeviceGives) {
  struct Case {
    const char *rows, *dtype, *cache_bytes;
    int32_t heads, processors;
  };
  for (const Case& c : {Case{"64", "bf16", "8M", 4, 4}, Case{"1000", "bf16", "0", 8, 132},
                        Case{"300", "f32", "0", 4, 20}}) {
    cuda_.processors = c.processors;
    const TinyCheckpoint checkpoint({.layers = 3, .heads = c.heads});
    const Options all =
        options({{"rows", c.rows}, {"dtype", c.dtype}, {"cache_bytes", c.cache_bytes}});
    const MemoryEstimate estimate = Engine::estimate(checkpoint.path(), all);
    const auto engine = Engine::create(checkpoint.path(), all, nullptr);
    const EngineStats stats = engine->stats();
    EXPECT_EQ(estimate.weight_bytes, stats.weight_bytes);
    EXPECT_EQ(estimate.activation_bytes,
              stats.activation_bytes_peak + ops::gpu::kGemmWorkspaceBytes);
    EXPECT_NEAR(estimate.kv_budget_bytes, stats.kv_budget_bytes, 0.01 * stats.kv_budget_bytes);
    EXPECT_NEAR(estimate.total_bytes, used_bytes(), 0.01 * used_bytes());
  }
}

// Rows of whole lines: kernels and epilogues of products touch no line of another row.
TEST(GpuSizes, RowsAreWholeLines) {
  for (const ops::NumericTypes& types : {ops::kBf16Types, ops::kF32Types}) {
    const ops::gpu::GpuSizes sizes(types, 132, 0);
    for (int64_t columns = 1; columns < 300; ++columns) {
      EXPECT_EQ(sizes.f32_ld(columns) * 4 % 128, 0);
      EXPECT_EQ(sizes.act_ld(columns) * static_cast<int64_t>(sizes.act_bytes()) % 128, 0);
      EXPECT_GE(std::min(sizes.f32_ld(columns), sizes.act_ld(columns)), columns);
    }
  }
}

TEST_F(GpuBudget, NothingIsAllocatedAfterTheEngineIsMade) {
  for (const char* const kind : {"auto", "mma", "invariant"}) {
    const bool invariant = kind == std::string("invariant");
    const auto engine = make({{"rows", "256"},
                              {"cache_bytes", "8M"},
                              {"invariant", invariant ? "1" : "0"},
                              {"cuda_attention", invariant ? "auto" : kind}},
                             TinyCheckpoint({.vocab = 300}));
    const int64_t allocations = counters().allocations;
    const std::vector<int32_t> head = tokens(300, 300);
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 36; ++i) {
      RequestSpec& spec =
          batch.emplace_back(generation(i % 5 == 0 ? tokens(1 + i * 3, 300) : head, 6));
      spec.task = static_cast<Task>(i % 6);
      if (i % 5 != 0) spec.tokens.resize(40 + i * 4);
      for (const int32_t t : tokens(2 + i % 40, 300)) spec.tokens.push_back(t);
      spec.logit_ids = {3, 290};
      spec.choices = {{1, 2, 3}, {4}};
    }
    int64_t pinned = 0;
    for (int round = 0; round < 3; ++round) {  // the second finds the cache full of the first
      if (round == 2) pinned = counters().pinned_allocations;
      results_of(*engine, batch);
    }
    EXPECT_GT(engine->stats().steps, 10);
    EXPECT_EQ(counters().allocations, allocations);
    // Memory of the host for results grows with what is asked for.
    EXPECT_EQ(counters().pinned_allocations, pinned);
  }
}

// Candidates of more rows than are multiplied at once.
TEST_F(GpuBudget, ManyRowsWithCandidatesAllocateNothing) {
  constexpr int32_t kVocab = 15500;  // as many parts as a row can have
  const auto engine = make({{"rows", "600"}, {"cache_bytes", "16M"}},
                           TinyCheckpoint({.layers = 1, .vocab = kVocab}));
  const int64_t allocations = counters().allocations;
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 270; ++i) {
    batch.push_back(generation({i, 7}, 2));
    batch.back().sampling.temperature = 1;
    batch.back().sampling.top_k = ops::kMaxCandidates;
  }
  results_of(*engine, batch);
  EXPECT_EQ(counters().allocations, allocations);
}

// More single logits than a step of 64 rows has room for: of one sequence, of several, of choices
// behind one row. They are read in groups, with the same results as at once.
TEST_F(GpuBudget, ManySingleLogitsAllocateNothing) {
  const TinyCheckpoint checkpoint({.layers = 1, .vocab = 601});
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 6; ++i) {
    RequestSpec& spec = batch.emplace_back(generation({}, 3));
    const int32_t distinct = i == 0 ? 560 : 150;
    for (int32_t t = 0; t < distinct; ++t) spec.tokens.push_back((t * 7 + i * 31) % 601);
    spec.sampling.repetition_penalty = 1.1f;
  }
  batch.push_back({.task = Task::kChoices, .tokens = {5, 6, 7}});
  for (int32_t t = 0; t < 600; ++t) batch.back().choices.push_back({t});
  std::vector<RequestResult> results[2];
  for (const bool grouped : {false, true}) {
    const auto engine =
        make({{"rows", grouped ? "64" : "1024"}, {"cache_bytes", "16M"}, {"invariant", "true"}},
             checkpoint);
    const int64_t allocations = counters().allocations;
    results[grouped] = results_of(*engine, batch);
    EXPECT_EQ(counters().allocations, allocations) << "grouped: " << grouped;
  }
  EXPECT_EQ(results[0].back().values.size(), 600u);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(testing_support::same_bits(results[0][i], results[1][i])) << i;
}

TEST_F(GpuBudget, TheCacheTakesNineTenthsOfTheRest) {
  Options plain;
  plain.set("device", "cuda");
  const auto engine = Engine::create(tiny_checkpoint().path(), plain, nullptr);
  const int64_t pool = engine->stats().kv_budget_bytes;
  const int64_t rest = gpu().free_bytes() + pool;
  EXPECT_NEAR(pool, 0.9 * static_cast<double>(rest), 1e5);
  EXPECT_NE(engine->info_json().find("\"rows\":\"4096\""), std::string::npos);
}

TEST_F(GpuBudget, WhatDoesNotFitIsRefusedAtOnce) {
  // 1 GiB is there, some of it for weights and steps.
  expect_error(Code::kOutOfDeviceMemory, {"1073741824", "cache_bytes", "weights", "4096", "rows"},
               [&] { make({{"cache_bytes", "1G"}}); });
  EXPECT_NO_THROW(make({{"cache_bytes", "800M"}}));
  expect_error(Code::kOutOfDeviceMemory, {"65536", "rows", "weights"},
               [&] { make({{"rows", "65536"}}, TinyCheckpoint({.intermediate = 4096})); });
}

// The largest intermediate result of a layer has the type of activations.
TEST_F(GpuBudget, GatedProductsTakeTwoBytesAnElement) {
  ops::ReserveShape shape{
      .rows = 128, .heads = 2, .inner = 100, .kv = {ops::KvType::kBf16, 1, 1, 64}};
  EXPECT_EQ(ops::gpu::GpuSizes(ops::kBf16Types, 1, 0).workspace(shape).gated, 128u * 256 * 2);
  shape.kv.type = ops::KvType::kF32;
  EXPECT_EQ(ops::gpu::GpuSizes(ops::kF32Types, 1, 0).workspace(shape).gated, 128u * 256 * 4);
}

// Where partial states of attention do not fit at once, a layer takes several launches, with the
// same bits.
TEST_F(GpuBudget, AttentionRunsInWavesWhereStatesDoNotFit) {
  using namespace ops::testing;
  Rng rng(22);
  ops::testing::Tree tree = gpu_tree(4, 2, 64, rng);
  grow_star(tree, 300, 400, 40);
  std::vector<RowRef> rows;
  for (int32_t leaf = 1; leaf <= 400; ++leaf) rows.push_back({leaf, 300 + leaf % 40});
  const Step step = gpu_step(tree, rows, rng);
  const auto roomy = emulated_device(ops::DType::kBf16, false, 1);
  const std::vector<float> want = run_attention(*roomy, tree, step);
  EXPECT_EQ(roomy->attention_plan().launches.size(), 1u);
  const auto narrow = emulated_device(ops::DType::kBf16, false, 1);
  const ops::ReserveShape shape{.rows = 1, .heads = tree.heads, .inner = 32, .kv = tree.layout()};
  narrow->reserve(shape);
  const std::vector<float> got = run_attention(*narrow, tree, step);
  const ops::gpu::DevicePlan& plan = narrow->attention_plan();
  EXPECT_GT(plan.launches.size(), 1u);
  EXPECT_LE(plan.partials, ops::gpu::GpuSizes(ops::kBf16Types, 1, 0).workspace(shape).max_partials);
  EXPECT_GT(roomy->attention_plan().partials, plan.partials);
  EXPECT_TRUE(testing_support::same_bits(got, want));
}

}  // namespace
}  // namespace prefix
