// Whole engines on the emulated GPU: the same results as the CPU within the rounding of bf16, and
// the same bookkeeping.

#include "kernels/engines.h"
#include "model/model.h"
#include "random_adapter.h"
#include "support/relative_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using ops::gpu::Kernel;
using testing_support::relative_error;

void expect_equal_embeddings(Engine& cpu, Engine& gpu) {
  std::mt19937 random(5);
  const std::vector<int32_t> head = random_tokens(random, 70, 64);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 6; ++i) {
    RequestSpec spec{.task = Task::kEmbed, .tokens = head, .normalize = false};
    for (int32_t t : random_tokens(random, 5 + i * 7, 64)) spec.tokens.push_back(t);
    batch.push_back(spec);
  }
  const std::vector<RequestResult> want = results_of(cpu, batch), got = results_of(gpu, batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_LE(relative_error(got[i].values, want[i].values), 2e-2);
    EXPECT_EQ(got[i].usage.computed, want[i].usage.computed);
    EXPECT_EQ(got[i].usage.shared, want[i].usage.shared);
  }
}

// The option reaches the device, which refuses what it cannot keep.
TEST_F(EmulatedEngine, HopperAttentionIsRefusedWithInvariant) {
  expect_error(Code::kInvalidArgument, {"cuda_attention=hopper", "invariant"},
               [] { make({{"cuda_attention", "hopper"}, {"invariant", "true"}}); });
  make({{"cuda_attention", "hopper"}});
}

// What the GPU has no kernels for (tests/model/gpu_models_test.cc has all of it) is refused before
// anything is computed, by the engine as by its estimate.
TEST_F(EmulatedEngine, WhatOnlyTheCpuRunsIsRefused) {
  const auto refused = [](const TinyCheckpoint& checkpoint, testing_support::OptionList more,
                          std::initializer_list<std::string_view> words) {
    expect_error(Code::kUnsupportedDevice, words, [&] { make(more, checkpoint); });
    expect_error(Code::kUnsupportedDevice, words,
                 [&] { Engine::estimate(checkpoint.path(), options(more)); });
  };
  refused(TinyCheckpoint({.windows = "fs", .window = 40}), {}, {"layer 1", "window of 40"});
  const TinyCheckpoint& plain = tiny_checkpoint();
  refused(plain, {{"kv", "int8"}}, {"kv=int8", "\"cpu\" only"});
  refused(plain, {{"compute", "int8"}}, {"compute=int8", "\"cpu\" only"});
  refused(plain, {{"attention", "bidirectional"}}, {"bidirectional", "\"cpu\" only"});
}

// The longest sequence decides, not what the file would allow.
TEST_F(EmulatedEngine, AWindowThatCutsNothingRuns) {
  const TinyCheckpoint checkpoint({.windows = "fs", .window = 150});
  EXPECT_GT(Engine::estimate(checkpoint.path(), options({{"max_positions", "150"}})).total_bytes,
            0);
  expect_equal_embeddings(*make_engine(checkpoint), *make({{"max_positions", "150"}}, checkpoint));
  expect_error(Code::kUnsupportedDevice, {"layer 1", "window of 150"},
               [&] { make({{"max_positions", "151"}}, checkpoint); });
}

TEST_F(EmulatedEngine, AdaptersAreRefused) {
  const testing_support::TempFolder folder;
  tools::write_adapter(folder / "adapter", {}, {});
  const auto engine = make();
  expect_error(Code::kUnsupportedDevice, {"no adapters", "\"cpu\" only"},
               [&] { engine->load_adapter("a", folder / "adapter"); });
  RequestSpec spec = logits_of({1, 2, 3});
  spec.adapter = "a";
  EXPECT_EQ(run_all(*engine, {spec})->result(0).status, Code::kNotFound);
}

// The device may have no memory for a step, or fail in the middle of one: the requests of that step
// fail with a status that says so, and the engine goes on.
TEST_F(EmulatedEngine, AFailureOfTheDeviceEndsTheRequestsOnly) {
  const auto engine = make();
  results_of(*engine, {logits_of(tokens(40))});
  for (int64_t call = 0; call < 30; call += 3) {
    gpu().fail_after(call, Code::kOutOfDeviceMemory);
    const RequestResult failed = run_all(*engine, {logits_of(tokens(90))})->result(0);
    EXPECT_EQ(failed.status, Code::kOutOfDeviceMemory) << "call " << call;
    EXPECT_NE(failed.message.find("told to fail"), std::string::npos) << failed.message;
    gpu().fail_after(-1, Code::kOk);
    results_of(*engine, {logits_of(tokens(50))});
  }
}

// A lost device answers no call any more, so an engine that went on would fail every request after
// a step's work.
TEST_F(EmulatedEngine, ALostDeviceEndsTheEngine) {
  const auto engine = make();
  const RequestSpec spec = logits_of({1, 2, 3});
  gpu().fail_after(0, Code::kDeviceLost);
  EXPECT_EQ(run_all(*engine, {spec})->result(0).status, Code::kDeviceLost);
  expect_error(Code::kEngineFailed, {"create a new one"}, [&] { engine->submit({spec}); });
}

// What one step costs in launches and copies: no surprises with the number of layers or requests.
TEST_F(EmulatedEngine, AStepIsOneUploadAndOneAttentionLaunchALayer) {
  const auto engine = make({}, TinyCheckpoint({.layers = 3}));
  std::vector<RequestSpec> batch(5, logits_of(tokens(100)));
  for (RequestSpec& spec : batch)
    for (int32_t t : tokens(20)) spec.tokens.push_back(t);
  const int64_t uploads = counters().uploads;
  const int64_t launches = counters().of(Kernel::kAttention64x8);
  results_of(*engine, batch);
  EXPECT_EQ(engine->stats().steps, 1);
  EXPECT_EQ(counters().uploads - uploads, 1);
  EXPECT_EQ(counters().of(Kernel::kAttention64x8) - launches, 3);
}

// What decides the bits of keys and values is part of the name of a page.
TEST_F(EmulatedEngine, PagesOfOtherBitsHaveOtherNames) {
  const auto fingerprint_of = [](ops::Device& device, int threads) {
    return Model(open_model(tiny_checkpoint().path()), device, 64, nullptr).fingerprint(threads);
  };
  const auto fingerprint = [&](ops::DType type, bool invariant, int processors, int threads) {
    return fingerprint_of(*ops::testing::emulated_device(type, invariant, processors), threads);
  };
  const Sha256::Digest one = fingerprint(ops::DType::kBf16, false, 4, 1);
  EXPECT_EQ(one, fingerprint(ops::DType::kBf16, false, 4, 3));
  EXPECT_NE(one, fingerprint(ops::DType::kBf16, true, 4, 1));
  EXPECT_NE(one, fingerprint(ops::DType::kBf16, false, 8, 1));
  EXPECT_NE(one, fingerprint(ops::DType::kF32, false, 4, 1));
  ops::GpuDevice device(std::make_unique<ops::gpu::EmulatedRuntime>(4), {});  // auto
  EXPECT_NE(one, fingerprint_of(device, 1));
}

// A step that only warms the cache has ended when it is computed, not when it is queued.
TEST_F(EmulatedEngine, AStepThatNobodyReadsIsWaitedFor) {
  const auto engine = make({{"rows", "32"}});
  const int64_t waits = counters().waits;
  results_of(*engine, {{.task = Task::kWarm, .tokens = tokens(70)}});
  EXPECT_EQ(engine->stats().steps, 3);
  EXPECT_EQ(counters().waits - waits, 3);
  EXPECT_EQ(engine->stats().gemm_ns, 0);  // what was measured is the time to queue
  EXPECT_EQ(engine->stats().gemm_flops, 0);
}

// What the first products of their shapes cost is paid when the engine is made.
TEST_F(EmulatedEngine, ProductsOfStepsArePreparedAtLoad) {
  for (const char* rows : {"4096", "20"}) {
    const auto engine = make({{"rows", rows}});
    EXPECT_EQ(counters().gemms, 0);
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 4; ++i) batch.push_back(generation(tokens(40), 5));
    // Single logits: of one panel of 32, of both, of some rows.
    for (int i = 0; i < 7; ++i) {
      batch.push_back(logits_of(tokens(8)));
      batch.back().logit_ids = i % 3 == 0 ? std::vector<int32_t>{3, 60} : std::vector<int32_t>{4};
    }
    results_of(*engine, batch);
    EXPECT_GT(counters().gemms, 0);
    EXPECT_EQ(counters().new_gemms, 0) << rows;
  }
}

// The download of the step before has waited for its upload already: pinned memory is free again,
// and the device is never drained for it. The emulator watches that nobody overwrites it early.
TEST_F(EmulatedEngine, DecodingWaitsForItsResultsOnly) {
  const auto engine = make();
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 3; ++i) batch.push_back(generation(tokens(40), 12));
  const int64_t waits = counters().waits;
  const int64_t uploads = counters().uploads;
  results_of(*engine, batch);
  EXPECT_EQ(counters().waits, waits);
  EXPECT_EQ(counters().uploads - uploads, engine->stats().steps);
}

// Pages that leave for a disk or a snapshot: one wait for all of them, and they come back as they
// were.
TEST_F(EmulatedEngine, PagesLeaveTogether) {
  const auto waits = [&] { return counters().waits + counters().downloads; };
  const testing_support::TempFolder folder;
  const RequestSpec spec = logits_of(tokens(700));
  std::vector<float> want;
  for (const bool again : {false, true}) {
    const auto engine = make(
        {{"invariant", "true"}, {"cache_disk", folder / "pages"}, {"cache_fetch_ms", "60000"}});
    int64_t before = waits();
    const RequestResult result = results_of(*engine, {spec})[0];
    EXPECT_EQ(result.usage.cached, again ? 672 : 0);
    if (!again) want = result.values;
    EXPECT_EQ(result.values, want);
    // One for the result, and one for all pages where they are new.
    EXPECT_EQ(waits() - before, again ? 1 : 2);
    before = waits();
    engine->save_snapshot(folder / "snapshot", {});
    EXPECT_EQ(waits() - before, 1);
  }
}

// Pages that cannot leave stay, and the engine goes on. Which calls are those of the pages is not
// known here, so each of a request fails once.
TEST_F(EmulatedEngine, PagesThatCannotLeaveStay) {
  const testing_support::TempFolder folder;
  const auto engine = make({{"cache_disk", folder / "pages"}});
  const auto run = [&] { return run_all(*engine, {logits_of(tokens(100))})->result(0).status; };
  int good = 0, bad = 0;
  for (int64_t call = 0; call < 60; ++call) {
    gpu().fail_after(call, Code::kOutOfDeviceMemory);
    ++(run() == Code::kOk ? good : bad);
    gpu().fail_after(-1, Code::kOk);
    ASSERT_EQ(run(), Code::kOk) << "call " << call;
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(bad, 0);
}

// The program's thread makes the engine and gets its own device back: only the engine's thread,
// with its first step, says that the device may stay current on it.
TEST_F(EmulatedEngine, TheProgramsThreadLaunchesNothingToStay) {
  const auto engine = make();
  EXPECT_EQ(gpu().launcher(), std::thread::id());
  results_of(*engine, {logits_of({1, 2, 3})});
  EXPECT_NE(gpu().launcher(), std::thread::id());
  EXPECT_NE(gpu().launcher(), std::this_thread::get_id());
}

// --- graphs --------------------------------------------------------------------------------------

// Sequences of three lengths, so that rows leave the batch on the way.
std::vector<RequestSpec> decoding(int sequences, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<RequestSpec> batch;
  for (int i = 0; i < sequences; ++i) {
    batch.push_back(generation(random_tokens(random, 5 + i % 4, 64), 12 + 10 * (i % 3)));
    batch.back().sampling.logprobs = true;
  }
  return batch;
}

void expect_same_bits(const std::vector<RequestResult>& a, const std::vector<RequestResult>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(testing_support::same_bits(a[i], b[i])) << i;
}

TEST_F(EmulatedEngine, StepsThatLookAlikeAreReplayed) {
  const auto engine = make();
  const int64_t before = counters().of(Kernel::kQkv);
  results_of(*engine, decoding(32, 1));
  const int64_t steps = engine->stats().steps;
  const int64_t launched = counters().of(Kernel::kQkv) - before;
  const int64_t replays = counters().replays;
  EXPECT_GE(steps, 32);
  EXPECT_GE(2 * replays, steps) << "of " << steps << " steps";
  const int64_t layers = 2;
  EXPECT_EQ(launched, (steps - replays) * layers);
  // The next batch meets graphs of the first.
  results_of(*engine, decoding(32, 2));
  EXPECT_GT(counters().replays - replays, replays);
}

// By default on capability 9.0 and where the option insists: small steps are one launch of clusters
// a layer, replayed like others.
TEST_F(EmulatedEngine, SmallStepsGoToClusters) {
  const TinyCheckpoint checkpoint({.head_dim = 64});
  std::vector<RequestResult> all[2];
  cuda_.processors = 8;
  for (const bool graphs : {true, false}) {
    const auto engine = make({{"cuda_attention", graphs ? "auto" : "hopper"}}, checkpoint);
    if (!graphs) gpu().refuse_graphs();
    all[graphs] = results_of(*engine, decoding(11, 1));
    EXPECT_EQ(counters().replays > 0, graphs);
    if (!graphs) {
      EXPECT_EQ(counters().of(Kernel::kAttentionDecode64), 2 * engine->stats().steps);
    }
    EXPECT_EQ(counters().of(Kernel::kAttention64x4) + counters().of(Kernel::kAttention64x8), 0);
    expect_equal_embeddings(*make_engine(checkpoint), *engine);
  }
  expect_same_bits(all[0], all[1]);
}

// Neither with `invariant` nor where the option says so.
TEST_F(EmulatedEngine, SmallStepsGoToTheKernelOfAllGpus) {
  const TinyCheckpoint checkpoint({.head_dim = 64});
  cuda_.processors = 8;
  for (const char* const option : {"cuda_attention", "invariant"}) {
    const bool mma = std::string_view(option) == "cuda_attention";
    const auto engine = make({{option, mma ? "mma" : "true"}}, checkpoint);
    results_of(*engine, decoding(3, 1));
    EXPECT_EQ(counters().of(Kernel::kAttentionDecode64), 0);
    EXPECT_GT(counters().of(Kernel::kAttention64x4), 0);
  }
}

// The same work with a runtime that cannot record, also when memory grows and steps fail between.
TEST_F(EmulatedEngine, GraphsChangeNoBits) {
  std::vector<RequestResult> before[2], after[2];
  for (const bool graphs : {true, false}) {
    const auto engine = make();
    if (!graphs) gpu().refuse_graphs();
    before[graphs] = results_of(*engine, decoding(11, 1));
    results_of(*engine, {logits_of(tokens(300))});
    after[graphs] = results_of(*engine, decoding(17, 2));
    EXPECT_EQ(counters().replays > 0, graphs);
  }
  expect_same_bits(before[0], before[1]);
  expect_same_bits(after[0], after[1]);
}

TEST_F(EmulatedEngine, AStepThatFailsLeavesGraphsGood) {
  const auto engine = make();
  results_of(*engine, decoding(8, 1));
  int failed = 0;
  for (int64_t call = 0; call < 40; call += 7) {
    gpu().fail_after(call, Code::kOutOfDeviceMemory);
    const auto job = run_all(*engine, decoding(8, 1));
    for (size_t i = 0; i < 8; ++i) failed += job->result(i).status != Code::kOk;
    gpu().fail_after(-1, Code::kOk);
    results_of(*engine, decoding(8, 1));
  }
  EXPECT_GE(failed, 6);
}

}  // namespace
}  // namespace prefix
