// Option weights=packed: engines whose matrices stay in the blocks of their GGUF file keep the
// promise of invariance_test.cc, are near the others, and take the memory of the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "engine/random_requests.h"
#include "engine/variants.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/load/weights.h"
#include "random_adapter.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/relative_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::golden_models;
using testing_support::make_options;
using testing_support::OptionList;
using testing_support::relative_error;
using testing_support::run_all;

constexpr const char* kTypes[] = {"q8_0", "q4_0", "q4_1", "q5_0",  "q5_1", "iq4_nl",
                                  "q4_k", "q5_k", "q6_k", "mxfp4", "mixed"};

class BlockWeights : public testing::TestWithParam<std::string> {
 protected:
  static std::string path() { return golden_models() + "/" + GetParam() + ".gguf"; }
  static std::shared_ptr<Engine> open(const OptionList& list, const char* weights = "packed") {
    Options options = make_options(list);
    options.set("weights", weights);
    return Engine::create(path(), options, nullptr);
  }
  static void compare(Engine& alone, const std::vector<testing_support::Variant>& variants,
                      int cases) {
    testing_support::expect_equal_bits(alone, variants,
                                       {testing_support::cases(cases), GetParam().size()},
                                       testing_support::random_batch);
  }
};

TEST_P(BlockWeights, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto make = [](const OptionList& list) { return open(list); };
  compare(*testing_support::one_at_a_time(make), testing_support::usual_variants(make), 60);
}

// With keys and values in whole numbers, too.
TEST_P(BlockWeights, EveryLevelHasTheSameBits) {
  const auto alone =
      open({{"kv", "int8"}, {"isa", "scalar"}, {"threads", "1"}, {"cache", "false"}});
  std::vector<testing_support::Variant> variants;
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    if (level.available)
      variants.push_back(
          {level.name.data(), open({{"kv", "int8"}, {"isa", level.name.data()}, {"rows", "29"}})});
  compare(*alone, variants, 24);
}

std::vector<float> logits(Engine& engine) {
  return testing_support::values_of(engine, testing_support::many_logits(24, 64));
}

TEST_P(BlockWeights, IsNearTheOtherInTheMemoryOfTheFile) {
  for (const char* dtype : {"bf16", "f32"}) {
    const auto other = open({{"dtype", "f32"}}, "auto"), packed = open({{"dtype", dtype}});
    const double apart = relative_error(logits(*packed), logits(*other));
    EXPECT_LT(apart, 0.04) << dtype;
    EXPECT_GT(apart, 1e-5) << dtype;
    const EngineInfo& info = packed->info();
    EXPECT_EQ(other->info().packed_matrices, 0);
    EXPECT_EQ(other->info().matrices, info.matrices);
    EXPECT_GT(info.packed_matrices, 0);
    // Mixed types meet in the panels of some.
    if (GetParam().find("mixed") == std::string::npos) {
      EXPECT_EQ(info.packed_matrices, info.matrices);
      // Rows of a matrix are made up to panels of 32.
      EXPECT_LT(info.weight_bytes,
                1.35 * static_cast<double>(std::filesystem::file_size(path())) + 65536);
    }
    EXPECT_LT(info.weight_bytes, other->info().weight_bytes);
    const Options options = make_options({{"dtype", dtype}, {"weights", "packed"}});
    EXPECT_EQ(Engine::estimate(path(), options).weight_bytes, info.weight_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BlockWeights, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const char* type : kTypes)
                             names.push_back(std::string("llama-gguf-") + type);
                           for (const char* type : {"q4_1", "q6_k"})
                             names.push_back(std::string("qwen3-gguf-") + type);
                           return names;
                         }()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(BlockWeightsOptions, AreCheckedByName) {
  const std::string path = golden_models() + "/llama-gguf-q4_0.gguf";
  const auto open = [&](const OptionList& list) {
    return Engine::create(path, make_options(list), nullptr);
  };
  expect_error(Code::kInvalidArgument, {"weights", "mapped", "auto|packed"},
               [&] { open({{"weights", "mapped"}}); });
  expect_error(Code::kInvalidArgument, {"weights=packed", "compute=int8"},
               [&] { open({{"weights", "packed"}, {"compute", "int8"}}); });
  expect_error(Code::kUnsupportedDevice, {"weights=packed", "cuda"},
               [&] { open({{"weights", "packed"}, {"device", "cuda"}}); });
}

// Weights of four and eight bits that are no blocks in their file, and have the numbers of some;
// and experts, which are blocks in one of two files.
TEST(BlockWeightsOptions, AwqGptqAndMxfp4StayInBlocksOfTheSameNumbers) {
  for (const auto& [name, blocks] : std::map<std::string, bool>{{"quantised-awq", true},
                                                                {"quantised-gptq4", true},
                                                                {"quantised-gptq4-order", false},
                                                                {"quantised-ct-int4-group", true},
                                                                {"quantised-ct-mxfp4", true},
                                                                {"quantised-ct-w8a8", true},
                                                                {"quantised-fp8-block", false},
                                                                {"gpt-oss-mxfp4", true},
                                                                {"gpt-oss-mxfp4.gguf", true}}) {
    const std::string path = golden_models() + "/" + name;
    const auto plain = Engine::create(path, make_options({{"dtype", "f32"}}), nullptr);
    const auto of = [&](const OptionList& more) {
      Options options = make_options(more);
      options.set("weights", "packed");
      options.set("dtype", "f32");
      return Engine::create(path, options, nullptr);
    };
    const auto packed = of({{"isa", "scalar"}});
    const double apart = relative_error(logits(*packed), logits(*plain));
    EXPECT_LT(apart, 0.04) << name;
    EXPECT_EQ(apart > 1e-5, blocks) << name;
    const EngineInfo& info = packed->info();
    EXPECT_EQ(info.packed_matrices > 0, blocks) << name;
    EXPECT_EQ(info.weight_bytes < plain->info().weight_bytes, blocks) << name;
    EXPECT_TRUE(testing_support::same_bits(logits(*of({{"rows", "7"}, {"isa", "scalar"}})),
                                           logits(*packed)));
    // What lies beside the blocks, the head and the embedding,
    // has the same bits at every level, too.
    const auto whole = of({{"kv", "int8"}, {"isa", "scalar"}});
    for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
      if (!level.available) continue;
      const auto engine = of({{"kv", "int8"}, {"isa", std::string(level.name)}});
      EXPECT_TRUE(testing_support::same_bits(logits(*engine), logits(*whole)))
          << name << ' ' << level.name;
    }
  }
}

TEST(BlockWeightsOptions, FilesWithoutBlocksAreAsEver) {
  for (const char* name : {"llama-gguf-f16.gguf", "llama-gguf-q2_k.gguf", "qwen3-moe-base"}) {
    const std::string path = golden_models() + "/" + name;
    const auto plain = Engine::create(path, make_options({}), nullptr);
    const auto packed = Engine::create(path, make_options({{"weights", "packed"}}), nullptr);
    EXPECT_EQ(packed->info().packed_matrices, 0) << name;
    EXPECT_EQ(packed->info().weight_bytes, plain->info().weight_bytes);
    EXPECT_EQ(logits(*packed), logits(*plain));
  }
}

// Seen from shapes alone.
TEST(BlockWeightsOptions, TheHeadHasTwoTerms) {
  const ModelFiles files = open_model(golden_models() + "/llama-gguf-q4_0.gguf");
  ops::NumericTypes types = ops::kBf16Types;
  types.blocks = true;
  const Weights weights = weight_shapes(files, find_architecture(files.config.architecture), types);
  EXPECT_EQ(weights.output.terms, 2);
  EXPECT_EQ(weights.output.format, ops::WeightFormat::kBlocks);
  for (const ops::PackedWeights* w : {&weights.layers[0].mixer_in, &weights.layers[0].mixer_out,
                                      &weights.layers[0].gate_up, &weights.layers[0].down}) {
    EXPECT_EQ(w->format, ops::WeightFormat::kBlocks);
    EXPECT_EQ(w->terms, 1);
  }
}

// Pages of one are nothing to the other.
TEST(BlockWeightsOptions, NameThePages) {
  ops::CpuOptions plain, packed;
  packed.types.blocks = true;
  EXPECT_NE(ops::make_cpu_device(plain)->numerics(), ops::make_cpu_device(packed)->numerics());
}

TEST(BlockWeightsOptions, AdaptersAddToBlocks) {
  const std::string path = golden_models() + "/llama-gguf-q4_0.gguf";
  const ModelConfig config = open_model(path).config;
  tools::CheckpointShape shape;
  shape.architecture = "llama";
  shape.hidden = config.hidden;
  shape.layers = config.layers;
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.intermediate = config.intermediate;
  shape.vocab = config.vocab_size;
  const testing_support::TempFolder folder;
  tools::write_adapter(folder.path(), shape, {.deviation = 0.2f});
  const auto of = [&](const char* weights, const char* name) {
    const auto engine = Engine::create(path, make_options({{"weights", weights}}), nullptr);
    engine->load_adapter("a", folder.path());
    RequestSpec spec = testing_support::logits_of({1, 5, 9, 12, 7, 3});
    for (int32_t id = 3; id < 64; ++id) spec.logit_ids.push_back(id);
    spec.adapter = name;
    return testing_support::values_of(*engine, spec);
  };
  const std::vector<float> want = of("auto", "a"), got = of("packed", "a");
  EXPECT_LT(relative_error(got, want), 0.04);
  EXPECT_GT(relative_error(of("packed", ""), want), 4 * relative_error(got, want));
}

// A scale that is not a number is the matter of the requests that meet it.
TEST(BlockWeightsOptions, ADamagedScaleStaysWithItsToken) {
  const std::string path = golden_models() + "/llama-gguf-q4_0.gguf";
  const ModelFiles files = open_model(path);
  const Tensor* table = files.tensors->find("token_embd.weight");
  ASSERT_NE(table, nullptr);
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  constexpr int32_t kBad = 77;
  const auto row = static_cast<size_t>(ops::blocks_bytes(table->type, table->row_values()));
  for (const auto& [half, finite] :
       std::array<std::pair<uint16_t, bool>, 3>{{{0x7e00, false}, {0xfc00, false}, {0, true}}}) {
    std::string damaged = bytes;
    std::memcpy(damaged.data() + table->offset + kBad * row, &half, sizeof half);
    const testing_support::TempFolder folder;
    folder.write("model.gguf", damaged);
    for (const char* rows : {"2048", "3"}) {
      const OptionList list = {{"weights", "packed"}, {"rows", rows}};
      const auto engine = Engine::create(folder / "model.gguf", make_options(list), nullptr);
      const auto whole = Engine::create(path, make_options(list), nullptr);
      const std::vector<RequestSpec> batch = {testing_support::logits_of({5, 9, 12, 3}),
                                              testing_support::logits_of({5, 9, kBad, 3}),
                                              testing_support::logits_of({5, 9, 12, 4, 8, 1})};
      const auto got = run_all(*engine, batch), want = run_all(*whole, batch);
      EXPECT_EQ(got->result(1).status, finite ? Code::kOk : Code::kNotFinite);
      for (const size_t i : {size_t{0}, size_t{2}}) {
        EXPECT_EQ(got->result(i).status, Code::kOk) << got->result(i).message;
        EXPECT_TRUE(testing_support::same_bits(got->result(i), want->result(i)));
      }
    }
  }
}

// What it makes of a number on the way, or of one at the end, is never taken for a result.
TEST(BlockWeightsOptions, ADamagedScaleOfAnyMatrixIsAFailureOfWhatMeetsIt) {
  const std::string path = golden_models() + "/llama-gguf-q4_k.gguf";
  const ModelFiles files = open_model(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<RequestSpec> batch(4);
  for (RequestSpec& spec : batch) spec.tokens = {5, 9, 12, 3, 8};
  batch[0].task = Task::kLogprobs;
  batch[1].task = batch[2].task = Task::kEmbed;
  batch[1].normalize = batch[2].normalize = false;
  batch[2].pooling = Pooling::kMean;
  batch[3].sampling.max_tokens = 3;
  batch[3].sampling.logprobs = batch[3].sampling.ignore_eos = true;
  int failed = 0, fine = 0;
  for (const Tensor& tensor : files.tensors->tensors()) {
    if (tensor.type != TensorType::kQ4_K) continue;
    const auto row = static_cast<size_t>(ops::blocks_bytes(tensor.type, tensor.row_values()));
    for (const uint16_t half : {0x7e00, 0x7c00, 0x7bff}) {  // NaN, infinity, the largest there is
      std::string damaged = bytes;
      std::memcpy(damaged.data() + tensor.offset + 3 * row, &half, sizeof half);
      const testing_support::TempFolder folder;
      folder.write("model.gguf", damaged);
      const auto engine =
          Engine::create(folder / "model.gguf", make_options({{"weights", "packed"}}), nullptr);
      const auto job = run_all(*engine, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const RequestResult& result = job->result(i);
        (result.status == Code::kOk ? fine : failed) += 1;
        if (result.status != Code::kOk) {
          EXPECT_EQ(result.status, Code::kNotFinite) << result.message;
          continue;
        }
        for (const std::vector<float>* values : {&result.values, &result.token_logprobs})
          EXPECT_TRUE(std::ranges::all_of(*values, [](float v) { return std::isfinite(v); }))
              << tensor.name << ", " << half << ", request " << i;
      }
    }
  }
  EXPECT_GT(failed, fine);
  EXPECT_GT(fine, 0);
}

}  // namespace
}  // namespace prefix
