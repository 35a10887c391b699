// Models with sliding windows: the promise of invariance_test.cc,
// and branches inside and behind the window.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "engine/engine_support.h"
#include "engine/random_requests.h"
#include "engine/variants.h"
#include "ops/op.h"

namespace prefix {
namespace {

using testing_support::first_tokens;
using testing_support::logits_of;
using testing_support::make_engine;
using testing_support::make_options;
using testing_support::random_tokens;
using testing_support::run_all;
using testing_support::same_bits;
using testing_support::TinyCheckpoint;

using Tokens = std::vector<int32_t>;

// Windows below a page and above one, of all layers or of some.
tools::CheckpointShape windowed(const std::string& architecture) {
  tools::CheckpointShape shape;
  shape.architecture = architecture;
  shape.layers = 3;
  const bool all =
      architecture == "phi3" || architecture == "ministral" || architecture == "mistral";
  shape.windows = all ? "sss" : architecture == "qwen3" ? "sfs" : "ssf";
  shape.window = architecture == "phi3" ? 70 : architecture == "olmo3" ? 9 : 33;
  return shape;
}

// Often longer than the windows.
RequestSpec random_request(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  Tokens tokens;
  if (!earlier.empty() && random() % 4) {  // shares a prefix with an earlier one
    tokens = earlier[random() % earlier.size()].tokens;
    tokens.resize(1 + random() % tokens.size());
  }
  const size_t more = random() % 8 == 0 ? 100 + random() % 300 : random() % 40;
  const Tokens tail = random_tokens(random, more, testing_support::kVocab);
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  while (tokens.size() < 2) tokens.push_back(1);
  return testing_support::random_task(random, std::move(tokens));
}

struct Level {
  std::string architecture, isa, dtype;
};

std::vector<Level> levels() {
  std::vector<Level> list;
  for (const char* architecture :
       {"qwen3", "phi3", "olmo3", "mistral", "ministral", "gemma2", "gemma3_text"})
    for (const ops::IsaLevel& level : ops::cpu_isa_levels())
      for (const char* dtype : {"bf16", "f32"})
        list.push_back({architecture, std::string(level.name), dtype});
  return list;
}

class WindowInvariance : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    for (const ops::IsaLevel& level : ops::cpu_isa_levels())
      if (level.name == GetParam().isa && !level.available)
        GTEST_SKIP() << "this machine lacks " << level.name;
  }
  std::shared_ptr<Engine> make(testing_support::OptionList list) const {
    Options options = make_options(list);
    options.set("isa", GetParam().isa);
    options.set("dtype", GetParam().dtype);
    return Engine::create(checkpoint_.path(), options, nullptr);
  }

  const tools::CheckpointShape shape_ = windowed(GetParam().architecture);
  const TinyCheckpoint checkpoint_{shape_};
};

TEST_P(WindowInvariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto open = [&](const testing_support::OptionList& list) { return make(list); };
  const auto alone = testing_support::one_at_a_time(open);
  auto variants = testing_support::usual_variants(open);
  if (shape_.windows ==
      "sss") {  // less memory than a prompt: paths slide (engine/schedule/bands.h)
    const int64_t page = 32 * alone->info().kv_bytes_per_token;
    variants.push_back({"24 pages, chunks of 50",
                        make({{"rows", "50"}, {"cache_bytes", std::to_string(24 * page)}})});
  }
  // Eight levels and more, so 500 cases of each architecture.
  testing_support::expect_equal_bits(*alone, variants,
                                     {testing_support::cases(520 / 8), GetParam().isa.size(), 40},
                                     [&](std::mt19937& random, size_t count) {
                                       std::vector<RequestSpec> batch;
                                       while (batch.size() < count)
                                         batch.push_back(random_request(random, batch));
                                       return batch;
                                     });
}

// A cached prompt that is continued at its end, inside the window before it, and behind that.
TEST_P(WindowInvariance, BranchesInsideAndBehindTheWindow) {
  const auto alone = make({{"threads", "1"}, {"cache", "false"}});
  const auto cached = make({{"threads", "2"}});
  std::mt19937 random(5);
  const Tokens trunk = random_tokens(random, 2500, shape_.vocab);
  run_all(*cached, {logits_of(trunk)});
  for (const size_t length : {2500u, 2499u, 2470u, 2432u, 2431u, 2049u, 2048u, 900u, 33u, 1u}) {
    Tokens tokens = first_tokens(trunk, length);
    for (const int32_t t : random_tokens(random, 20, shape_.vocab)) tokens.push_back(t);
    const RequestSpec spec = logits_of(tokens);
    EXPECT_TRUE(same_bits(run_all(*cached, {spec})->result(0), run_all(*alone, {spec})->result(0)))
        << "length " << length;
  }
}

// What is behind the windows of all layers decides nothing; what is inside does. The last token
// sees, through three layers, 3 (window - 1) tokens before it.
TEST_P(WindowInvariance, TokensBehindAllWindowsDecideNothing) {
  if (shape_.windows != "sss") GTEST_SKIP() << "a layer without a window sees all tokens";
  const auto engine = make({{"threads", "1"}, {"cache", "false"}});
  std::mt19937 random(6);
  const Tokens tokens = random_tokens(random, 600, shape_.vocab);
  const size_t reach = 3 * static_cast<size_t>(shape_.window - 1);
  const auto with_other = [&](size_t position) {
    Tokens other = tokens;
    other[position] = (other[position] + 1) % shape_.vocab;
    return run_all(*engine, {logits_of(other)})->result(0);
  };
  const RequestResult want = run_all(*engine, {logits_of(tokens)})->result(0);
  EXPECT_TRUE(same_bits(with_other(599 - reach - 1), want));
  EXPECT_TRUE(same_bits(with_other(0), want));
  EXPECT_FALSE(same_bits(with_other(599 - reach / 2), want));
}

INSTANTIATE_TEST_SUITE_P(Levels, WindowInvariance, testing::ValuesIn(levels()), [](const auto& l) {
  return l.param.architecture + "_" + l.param.isa + "_" + l.param.dtype;
});

}  // namespace
}  // namespace prefix
