// Option compute: engines whose matrices are whole numbers keep the promise of invariance_test.cc,
// stay near the others, and take the memory they say.
#include <gtest/gtest.h>

#include "engine/random_requests.h"
#include "engine/variants.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/load/weights.h"
#include "random_adapter.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/relative_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::make_options;
using testing_support::OptionList;
using testing_support::relative_error;

class Int8Engine : public testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<Engine> open(const OptionList& list, const char* keep) {
    Options options = make_options(list);
    options.set("compute", "int8");
    options.set("compute_keep", keep);
    return Engine::create(testing_support::golden_models() + "/" + GetParam(), options, nullptr);
  }
};

TEST_P(Int8Engine, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const bool keep = GetParam().size() % 2 == 0;
  const auto make = [&](const OptionList& list) { return open(list, keep ? "head" : ""); };
  const auto alone = testing_support::one_at_a_time(make);
  const auto variants = testing_support::usual_variants(make);
  testing_support::expect_equal_bits(*alone, variants,
                                     {testing_support::cases(90), GetParam().size()},
                                     testing_support::random_batch);
}

std::vector<float> logits(Engine& engine) {
  return testing_support::values_of(engine, testing_support::many_logits(24, 64));
}

TEST_P(Int8Engine, IsNearTheOtherWhoseExpertsAreTheSame) {
  const std::string path = testing_support::golden_models() + "/" + GetParam();
  const auto other = Engine::create(path, make_options({{"dtype", "f32"}}), nullptr);
  // Of several experts a near tie may take others.
  const bool experts = GetParam().find("moe") != std::string::npos ||
                       GetParam().find("mixtral") != std::string::npos ||
                       GetParam().find("gpt_oss") != std::string::npos;
  const double limit = experts ? 0.5 : 0.12;
  const auto layers = open({{"dtype", "f32"}}, "head"), all = open({{"dtype", "f32"}}, "");
  EXPECT_EQ(layers->info().compute, "int8");
  EXPECT_EQ(other->info().compute, "f32");
  const std::vector<float> want = logits(*other), got = logits(*layers), whole = logits(*all);
  EXPECT_LT(relative_error(got, want), limit);
  EXPECT_GT(relative_error(got, want), 1e-5);
  EXPECT_LT(relative_error(whole, want), limit);
  EXPECT_NE(whole, got);
  EXPECT_LT(all->stats().weight_bytes, layers->stats().weight_bytes);
  EXPECT_LT(layers->stats().weight_bytes, other->stats().weight_bytes);
  Options options = make_options({{"dtype", "f32"}, {"compute", "int8"}});
  EXPECT_EQ(Engine::estimate(path, options).weight_bytes, all->stats().weight_bytes);
}

INSTANTIATE_TEST_SUITE_P(Models, Int8Engine, testing::ValuesIn(testing_support::base_models()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

TEST(Int8Options, AreCheckedByName) {
  const testing_support::TinyCheckpoint checkpoint{tools::CheckpointShape{}};
  const auto open = [&](const OptionList& list) {
    return Engine::create(checkpoint.path(), make_options(list), nullptr);
  };
  expect_error(Code::kInvalidArgument, {"compute", "int4", "auto|int8"},
               [&] { open({{"compute", "int4"}}); });
  expect_error(Code::kInvalidArgument, {"compute_keep", "\"head\"", "compute=int8"},
               [&] { open({{"compute_keep", "head"}}); });
  expect_error(Code::kInvalidArgument, {"cache_events", "sharing"},
               [&] { open({{"cache_events", "9"}, {"sharing", "false"}}); });
  expect_error(Code::kInvalidArgument, {"compute_keep", "\"heads\"", "mixer_in"},
               [&] { open({{"compute", "int8"}, {"compute_keep", "down,heads"}}); });
  expect_error(Code::kUnsupportedDevice, {"compute=int8", "cuda:1"},
               [&] { open({{"compute", "int8"}, {"device", "cuda:1"}}); });
}

// What is packed is seen from shapes alone. A head multiplies what its
// inputs' rounding takes away, too.
TEST(Int8Options, RoutersStayAndAHeadThatIsKept) {
  const ModelFiles files = open_model(testing_support::golden_models() + "/qwen3-moe-base");
  for (const bool kept : {false, true}) {
    ops::NumericTypes types = ops::kBf16Types;
    types.int8 = ops::kInt8All;
    if (kept) types.int8 &= ~ops::int8_bit(ops::MatrixKind::kHead);
    const Weights weights =
        weight_shapes(files, find_architecture(files.config.architecture), types);
    const auto& layer = weights.layers[0];
    EXPECT_EQ(layer.router.format, ops::WeightFormat::kBf16);
    EXPECT_EQ(weights.output.format, kept ? ops::WeightFormat::kBf16 : ops::WeightFormat::kInt8);
    EXPECT_EQ(weights.embedding.format, weights.output.format);
    EXPECT_EQ(weights.output.terms, kept ? 1 : 2);
    for (const ops::PackedWeights* w :
         {&layer.mixer_in, &layer.mixer_out, &layer.experts[0].gate_up, &layer.experts[0].down}) {
      EXPECT_EQ(w->format, ops::WeightFormat::kInt8);
      EXPECT_EQ(w->terms, 1);
    }
  }
}

TEST(Int8Options, SumsThatAreTooLongAreRefused) {
  tools::CheckpointShape shape;
  shape.hidden = shape.head_dim = 16;
  shape.heads = shape.kv_heads = shape.layers = 1;
  shape.repeat = true;
  const auto open = [&](int32_t intermediate, const char* keep) {
    shape.intermediate = intermediate;
    const testing_support::TinyCheckpoint checkpoint(shape);
    return Engine::estimate(checkpoint.path(),
                            make_options({{"compute", "int8"}, {"compute_keep", keep}}));
  };
  EXPECT_NO_THROW(open(131072, ""));
  EXPECT_NO_THROW(open(131104, "down"));
  expect_error(Code::kUnsupportedModel, {"131104", "131072", "int8"}, [&] { open(131104, ""); });
}

// Pages of one are nothing to the other.
TEST(Int8Options, ThePartsInWholeNumbersNameThePages) {
  ops::CpuOptions plain, some, all;
  some.types.int8 = ops::int8_bit(ops::MatrixKind::kDown);
  all.types.int8 = ops::kInt8All;
  const std::string a = ops::make_cpu_device(plain)->numerics(),
                    b = ops::make_cpu_device(some)->numerics(),
                    c = ops::make_cpu_device(all)->numerics();
  EXPECT_NE(a, b);
  EXPECT_NE(b, c);
  EXPECT_NE(a, c);
}

TEST(Int8Options, AdaptersAddToWholeNumbers) {
  const tools::CheckpointShape shape{};
  const testing_support::TinyCheckpoint checkpoint(shape);
  tools::PeftAdapter adapter{.rank = 4, .alpha = 8};
  adapter.deviation = 0.2f;
  const std::string folder = checkpoint.path() + "/adapter";
  tools::write_adapter(folder, shape, adapter);
  const auto of = [&](const char* compute, const char* name) {
    const auto engine = Engine::create(
        checkpoint.path(), make_options({{"compute", compute}, {"compute_keep", ""}}), nullptr);
    engine->load_adapter("a", folder);
    RequestSpec spec;
    spec.tokens = {1, 5, 9, 12, 7, 3};
    spec.task = Task::kLogits;
    for (int32_t id = 0; id < 64; ++id) spec.logit_ids.push_back(id);
    spec.adapter = name;
    return testing_support::values_of(*engine, spec);
  };
  const std::vector<float> want = of("auto", "a"), got = of("int8", "a"), without = of("int8", "");
  EXPECT_LT(relative_error(got, want), 0.12);
  EXPECT_GT(relative_error(without, want), 2 * relative_error(got, want));
}

}  // namespace
}  // namespace prefix
