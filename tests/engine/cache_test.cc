// What the cache promises: it changes no bit of a result, computes no token twice, stays within its
// budget, keeps namespaces apart, and looking into it leaves it as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "engine/cache_support.h"
#include "plan/attention_plan.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr int32_t kVocab = 131;  // of the tiny models

const TinyCheckpoint& checkpoint() {
  static const TinyCheckpoint* const kCheckpoint = new TinyCheckpoint;
  return *kCheckpoint;
}

// --- warm equals cold ----------------------------------------------------------------------------

struct Model {
  const char* name;
  const char* golden;  // a golden model, or "" for the checkpoint above
  const char* dtype;
  const char* rows;
  int cases;
};

// What the cache did in a case; most cases count more than once.
struct Tally {
  int cases = 0, full = 0, partial = 0, inside_page = 0, split = 0, whole = 0, tail = 0, refill = 0;
};

class WarmEqualsCold : public testing::TestWithParam<Model> {};

std::vector<int32_t> random_prompt(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  std::vector<int32_t> tokens;
  if (!earlier.empty() && random() % 5) {
    const std::vector<int32_t>& from = earlier[random() % earlier.size()].tokens;
    tokens = first_tokens(from, 1 + random() % from.size());
  }
  const size_t more = random() % 3 == 0 ? 40 + random() % 100 : random() % 24;
  for (const int32_t t : random_tokens(random, more, kVocab)) tokens.push_back(t);
  tokens.resize(std::clamp<size_t>(tokens.size(), 2, 160), 1);
  return tokens;
}

RequestSpec random_task(std::mt19937& random, std::vector<int32_t> tokens) {
  RequestSpec spec;
  spec.tokens = std::move(tokens);
  switch (random() % 5) {
    case 0:
      spec.task = Task::kLogits;
      spec.logit_ids = random_tokens(random, 1 + random() % 4, kVocab);
      break;
    case 1:
      spec.task = Task::kLogprobs;
      spec.from = static_cast<int32_t>(spec.tokens.size() - 1 -
                                       random() % std::min<size_t>(spec.tokens.size() - 1, 12));
      break;
    case 2:
      spec.task = Task::kChoices;
      for (size_t c = 1 + random() % 3; c > 0; --c)
        spec.choices.push_back(random_tokens(random, 1 + random() % 3, kVocab));
      break;
    case 3:
      spec.task = Task::kEmbed;
      break;
    default:
      spec.task = Task::kGenerate;
      spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 4);
      spec.sampling.ignore_eos = true;
      spec.sampling.logprobs = true;
  }
  return spec;
}

// Counts what the cache will do, and has done, for a request that runs alone.
class Watch {
 public:
  Watch(Engine& engine, const RequestSpec& spec, bool was_complete, bool one_rotation)
      : engine_(engine), spec_(spec), was_complete_(was_complete), one_rotation_(one_rotation) {
    cached_ = look_up(engine, spec.tokens).cached_tokens;
    before_ = engine.stats();
  }

  void count(Tally& tally) const {
    const auto n = static_cast<int64_t>(spec_.tokens.size());
    const EngineStats after = engine_.stats();
    const bool evicted = after.evicted_tokens > before_.evicted_tokens;
    ++tally.cases;
    tally.full += cached_ == n;
    tally.partial += cached_ > 0 && cached_ < n;
    tally.inside_page += cached_ > 0 && cached_ < n && cached_ % kPageTokens != 0;
    tally.whole += after.evictions > before_.evictions;
    tally.tail += evicted && after.evictions == before_.evictions;
    tally.refill += was_complete_ && cached_ < n;
    const bool one_path = spec_.task != Task::kChoices && spec_.task != Task::kGenerate;
    tally.split += one_path && !evicted && after.tree_nodes == before_.tree_nodes + 2;
  }

  // A full hit computes the last token again, to be read. With two rotary tables a look-up tells
  // the better one of two prefixes, and the request may need the other one.
  void check(const Usage& usage) const {
    const auto n = static_cast<int64_t>(spec_.tokens.size());
    ASSERT_EQ(usage.cached + usage.shared + usage.computed, usage.prompt);
    if (spec_.task == Task::kLogprobs || spec_.task == Task::kChoices) return;
    const int64_t most = std::min(cached_, n - 1);
    ASSERT_TRUE(usage.cached == most || (!one_rotation_ && usage.cached < most))
        << usage.cached << " of " << n << ", not " << most;
  }

 private:
  Engine& engine_;
  const RequestSpec& spec_;
  bool was_complete_;
  bool one_rotation_;
  int64_t cached_ = 0;
  EngineStats before_;
};

TEST_P(WarmEqualsCold, InEveryStateOfTheCache) {
  const Model& model = GetParam();
  std::string path = checkpoint().path();
  if (*model.golden) path = golden_models() + "/" + model.golden;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing (make test writes it)";
  Options options = make_options({{"dtype", model.dtype}, {"threads", "1"}, {"rows", model.rows}});
  const auto page = 32 * Engine::estimate(path, options).kv_bytes_per_token;
  options.set("cache_bytes", std::to_string(24 * page));
  const auto warm = Engine::create(path, options, nullptr);
  options.set("cache_bytes", "64M");
  options.set("cache", "false");
  options.set("sharing", "false");
  options.set("rows", "2048");
  const auto cold = Engine::create(path, options, nullptr);

  std::mt19937 random(11);
  Tally tally;
  while (tally.cases < cases(model.cases)) {
    std::vector<RequestSpec> pool;
    while (pool.size() < 48) pool.push_back(random_task(random, random_prompt(random, pool)));
    const auto expected = run_all(*cold, pool);
    std::vector<bool> complete(pool.size());
    for (int round = 0; round < 160; ++round) {
      if (random() % 16 == 0) warm->cache_trim(static_cast<int64_t>(random() % 24) * page);
      std::vector<size_t> chosen{random() % pool.size()};
      while (random() % 4 == 0) chosen.push_back(random() % pool.size());
      std::vector<RequestSpec> batch;
      for (const size_t i : chosen) batch.push_back(pool[i]);
      const Watch watch(*warm, batch[0], complete[chosen[0]], !*model.golden);
      const auto job = run_all(*warm, batch);
      for (size_t i = 0; i < chosen.size(); ++i) {
        ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
        ASSERT_TRUE(same_bits(job->result(i), expected->result(chosen[i])))
            << "case " << tally.cases << ", request " << i << " of " << chosen.size();
        complete[chosen[i]] = true;
      }
      if (chosen.size() == 1) {
        watch.check(job->result(0).usage);
        if (HasFatalFailure()) return;
        watch.count(tally);
      } else {
        tally.cases += static_cast<int>(chosen.size());
      }
    }
    warm->cache_trim(0);
    ASSERT_EQ(warm->stats().pages_used, 0);
  }
  std::printf(
      "%s: %d cases, %d full hits, %d partial, %d of them inside a page, %d splits, "
      "%d evictions of a whole node, %d of a tail alone, %d refills\n",
      model.name, tally.cases, tally.full, tally.partial, tally.inside_page, tally.split,
      tally.whole, tally.tail, tally.refill);
  for (const int count : {tally.full, tally.partial, tally.inside_page, tally.split, tally.whole,
                          tally.tail, tally.refill})
    EXPECT_GE(count, tally.cases / 100);
}

INSTANTIATE_TEST_SUITE_P(Models, WarmEqualsCold,
                         testing::Values(Model{"bf16", "", "bf16", "2048", 24000},
                                         Model{"bf16_rows_of_7", "", "bf16", "7", 8000},
                                         Model{"f32", "", "f32", "2048", 5000},
                                         Model{"two_rotations", "phi3-longrope", "bf16", "2048",
                                               10000}),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace prefix
