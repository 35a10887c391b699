// The inputs by which compute=int8 rounds weights:
// of each matrix there are some, and they have the same bits wherever they were computed.
#include "engine/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "engine/engine_support.h"
#include "model/architecture.h"
#include "model/load/weights.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::make_options;
using testing_support::TempFolder;

std::string model_path(const std::string& name) {
  return testing_support::golden_models() + "/" + name;
}

ops::DeviceOptions whole(std::string isa = "auto", int threads = 1) {
  ops::DeviceOptions options;
  options.types.int8 = ops::kInt8All;
  options.isa = std::move(isa);
  options.threads = std::make_shared<Threads>(threads);
  return options;
}

// The names and inputs of the matrices that a load would round.
class Matrices final : public LoadObserver {
 public:
  void matrix(const std::string& name, ops::PackedWeights& packed,
              const std::vector<const Tensor*>&) override {
    k[name] = static_cast<size_t>(packed.k);
  }
  void used(const std::set<std::string>&) override {}
  std::map<std::string, size_t> k;
};

class CalibrationOf : public testing::TestWithParam<std::string> {};

TEST_P(CalibrationOf, EachMatrixIsThereAndTheSameEverywhere) {
  const ModelFiles files = open_model(model_path(GetParam()));
  Matrices matrices;
  weight_shapes(files, find_architecture(files.config.architecture), whole().types, &matrices);
  const Calibration calibration = calibrate(files, whole(), nullptr);
  ASSERT_EQ(calibration.size(), matrices.k.size());
  size_t expert_matrices = 0, unused = 0;
  for (const auto& [name, k] : matrices.k) {
    ASSERT_TRUE(calibration.contains(name)) << name;
    const ops::CalibrationRows& rows = calibration.find(name)->second;
    EXPECT_EQ(rows.numbers.size(), k * rows.scales.size()) << name;
    EXPECT_LE(rows.scales.size(), size_t{ops::kCalibrationRows}) << name;
    const bool seen = !rows.scales.empty();
    if (name.find(".experts.") != name.npos) {  // few tokens need not meet all of them
      ++expert_matrices;
      unused += !seen;
    } else {
      const bool is_output = files.config.tie_embeddings && files.config.missing_output.empty() &&
                             !files.config.bidirectional;
      EXPECT_EQ(seen, name != "embedding.head" || is_output) << name;
    }
  }
  EXPECT_TRUE(unused < expert_matrices || expert_matrices == 0);
  EXPECT_EQ(calibrate(files, whole("auto", 3), nullptr), calibration);
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    if (level.available) {
      EXPECT_EQ(calibrate(files, whole(std::string(level.name)), nullptr), calibration)
          << level.name;
    }
  // Nor does what else an engine is opened with matter.
  ops::DeviceOptions other = whole();
  other.types = ops::kF32Types;
  other.types.int8 = ops::kInt8All;
  EXPECT_EQ(calibrate(files, other, nullptr), calibration);
}

INSTANTIATE_TEST_SUITE_P(Models, CalibrationOf,
                         testing::Values("llama-base", "qwen3-moe-base", "granite-h-experts",
                                         "gemma-body", "gemma3-embedding", "gemma-base.gguf"),
                         [](const auto& model) { return testing_support::test_name(model.param); });

TEST(CalibrationTest, IsNotLookedForWhereNothingIsRounded) {
  const std::string path = model_path("llama-base");
  const auto never = [](double) -> bool { throw std::logic_error("a model was loaded"); };
  EXPECT_TRUE(calibrate(open_model(path), {}, never).empty());
  const TempFolder folder;
  const std::string packed = folder / "packed";
  Options options = make_options({{"compute", "int8"}, {"compute_keep", "head"}});
  options.set("pack_to", packed);
  Engine::create(path, options, nullptr);
  ops::DeviceOptions kept = whole();
  kept.types.int8 &= ~ops::int8_bit(ops::MatrixKind::kHead);
  EXPECT_TRUE(calibrate(open_model(packed), kept, never).empty());
  // The head is left to be rounded; inputs of other matrices are not kept.
  const Calibration left = calibrate(open_model(packed), whole(), nullptr);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left.begin()->first, "embedding.head");
}

TEST(CalibrationTest, ProgressOfBothLoadsGoesUpOnceAndEndsEither) {
  Options options = make_options({{"compute", "int8"}});
  std::vector<double> seen;
  Engine::create(model_path("llama-base"), options, [&](double done) {
    seen.push_back(done);
    return true;
  });
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_GT(std::ranges::count_if(seen, [](double done) { return done < 0.5; }), 2);
  EXPECT_GT(std::ranges::count_if(seen, [](double done) { return done > 0.5; }), 2);
  EXPECT_EQ(seen.back(), 1);
  std::vector<double> plain;
  Engine::create(model_path("llama-base"), make_options({}), [&](double done) {
    plain.push_back(done);
    return true;
  });
  EXPECT_TRUE(std::ranges::is_sorted(plain));
  EXPECT_LT(plain.front(), 0.5);
  // 0.45 to 0.5: the layers of the tokens.
  EXPECT_GT(std::ranges::count_if(seen, [](double done) { return done > 0.45 && done < 0.5; }), 0);
  for (const double end : {0.2, 0.47, 0.8})
    expect_error(Code::kCancelled, {"ended"}, [&] {
      Engine::create(model_path("llama-base"), options, [&](double done) { return done < end; });
    });
}

}  // namespace
}  // namespace prefix
