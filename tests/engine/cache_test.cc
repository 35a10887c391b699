// What the cache promises: it changes no bit of a result, and computes no token twice. Its budget
// (cache_budget_test.cc) and its namespaces (cache_isolation_test.cc) have files of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "engine/engine_support.h"
#include "engine/random_requests.h"
#include "ops/attention_plan.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;

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

// Counts what the cache will do, and has done, for a request that runs alone.
class Watch {
 public:
  Watch(Engine& engine, const RequestSpec& spec, bool was_complete)
      : engine_(engine), spec_(spec), was_complete_(was_complete) {
    // By its whole length, which tells one of two rotations.
    std::vector<int32_t> longest = spec.tokens;
    if (spec.task == Task::kGenerate)
      longest.resize(longest.size() + static_cast<size_t>(spec.sampling.max_tokens));
    cached_ =
        std::min(look_up(engine, longest).cached_tokens, static_cast<int64_t>(spec.tokens.size()));
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

  // A full hit computes the last token again, to be read.
  void check(const Usage& usage) const {
    const auto n = static_cast<int64_t>(spec_.tokens.size());
    ASSERT_EQ(usage.cached + usage.shared + usage.computed, usage.prompt);
    if (spec_.task == Task::kLogprobs || spec_.task == Task::kChoices) return;
    if (spec_.pooling != Pooling::kLast) return;  // computes what it reads once more
    ASSERT_EQ(usage.cached, std::min(cached_, n - 1)) << "of " << n;
  }

 private:
  Engine& engine_;
  const RequestSpec& spec_;
  bool was_complete_;
  int64_t cached_ = 0;
  EngineStats before_;
};

TEST_P(WarmEqualsCold, InEveryStateOfTheCache) {
  const Model& model = GetParam();
  std::string path = tiny_checkpoint().path();
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
      const Watch watch(*warm, batch[0], complete[chosen[0]]);
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
                                               5000}),
                         [](const auto& model) { return model.param.name; });

// --- nothing is computed twice -------------------------------------------------------------------

// Token sequences by number: every distinct prefix has one, in the order of their coming.
class Prefixes {
 public:
  // Of the whole sequence.
  int add(const std::vector<int32_t>& tokens) {
    int at = 0;
    for (const int32_t t : tokens) at = next_.try_emplace({at, t}, count() + 1).first->second;
    return at;
  }
  int count() const { return static_cast<int>(next_.size()); }

 private:
  std::map<std::pair<int, int32_t>, int> next_;
};

// What requests compute. A last token that is only scored has no row.
struct Computed {
  Prefixes prefixes;                         // with a row
  std::set<int> read;                        // of these, after which a request reads a result
  std::set<std::pair<int, int32_t>> scored;  // the prefix and the token behind it
  int ends = 0;                              // of the scored tokens, last ones

  void add(const RequestSpec& spec) {
    if (spec.task == Task::kLogprobs) {
      score(first_tokens(spec.tokens, static_cast<size_t>(spec.from)), spec.tokens);
    } else if (spec.task == Task::kChoices) {
      for (const std::vector<int32_t>& choice : spec.choices)
        score(spec.tokens, joined(spec.tokens, choice));
    } else {
      read.insert(prefixes.add(spec.tokens));
    }
  }

 private:
  void score(std::vector<int32_t> tokens, const std::vector<int32_t>& all) {
    while (tokens.size() < all.size()) {
      const int row = prefixes.add(tokens);
      const int32_t next = all[tokens.size()];
      tokens.push_back(next);
      if (!scored.emplace(row, next).second) continue;
      read.insert(row);
      ends += tokens.size() == all.size();
    }
  }
};

constexpr int32_t kEnd = kVocab - 1;  // ends every document, so that none begins with another

// 16 calls with 64 documents each, all behind one template and query.
std::vector<std::vector<RequestSpec>> template_calls(Task task) {
  std::mt19937 random(23);
  const std::vector<int32_t> head = random_tokens(random, 107, kEnd);
  std::set<std::vector<int32_t>> documents;
  while (documents.size() < 16 * 64) {
    std::vector<int32_t> tokens = random_tokens(random, 4 + random() % 40, 5);
    tokens.push_back(kEnd);
    documents.insert(std::move(tokens));
  }
  std::vector<std::vector<int32_t>> shuffled(documents.begin(), documents.end());
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  std::vector<std::vector<RequestSpec>> calls(16);
  for (size_t i = 0; i < shuffled.size(); ++i) {
    RequestSpec spec = logits_of(head);
    spec.tokens.insert(spec.tokens.end(), shuffled[i].begin(), shuffled[i].end());
    spec.task = task;
    spec.from = static_cast<int32_t>(head.size());
    spec.choices = {{1, 2}, {1, 3, 4}, {5}};
    spec.sampling.max_tokens = 3;
    spec.sampling.ignore_eos = true;
    calls[i / 64].push_back(std::move(spec));
  }
  return calls;
}

const char* name_of(Task task) {
  constexpr const char* kNames[] = {"logits", "logprobs", "choices", "embed", "generate"};
  return kNames[static_cast<int>(task)];
}

class NothingTwice : public testing::TestWithParam<Task> {};

TEST_P(NothingTwice, SixteenCallsComputeDistinctTokensAndASecondPassOnlyRowsToRead) {
  const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "128M"}, {"rows", "65536"}});
  const auto calls = template_calls(GetParam());
  Computed all;
  int64_t first_pass = 0, first_redone = 0;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t pass_computed = 0, pass_redone = 0;
    for (const std::vector<RequestSpec>& call : calls) {
      // A row is computed when it is new, and once more in a later call that reads something new of it.
      const int before = all.prefixes.count();
      all.read.clear();
      all.ends = 0;
      for (const RequestSpec& spec : call) all.add(spec);
      const int added = all.prefixes.count() - before;
      const auto redone = std::distance(all.read.begin(), all.read.upper_bound(before));
      const auto job = run_all(*engine, call);
      const JobTotals totals = job->totals();
      ASSERT_EQ(totals.failed, 0);
      ASSERT_EQ(totals.tokens_computed, added + redone + all.ends);
      ASSERT_EQ(totals.tokens_given,
                totals.tokens_cached + totals.tokens_shared + totals.tokens_computed);
      for (size_t i = 0; i < call.size(); ++i) {
        const Usage& usage = job->result(i).usage;
        ASSERT_EQ(usage.prompt, usage.cached + usage.shared + usage.computed);
        if (call[i].task != Task::kGenerate) continue;
        // What was generated is in the cache as well, but for the last token, which was not run.
        std::vector<int32_t> tokens = call[i].tokens;
        const std::vector<int32_t>& more = job->result(i).tokens;
        tokens.insert(tokens.end(), more.begin(), more.end() - 1);
        all.prefixes.add(tokens);
      }
      ASSERT_TRUE(totals.rows == added + redone || GetParam() == Task::kGenerate);
      pass_computed += totals.tokens_computed;
      pass_redone += redone;
    }
    if (pass == 0) {
      first_pass = pass_computed;
      first_redone = pass_redone;
      continue;
    }
    ASSERT_EQ(pass_computed, pass_redone) << "no new token in the second pass";
    const bool reads_one =
        GetParam() == Task::kLogits || GetParam() == Task::kEmbed || GetParam() == Task::kGenerate;
    if (reads_one) {
      EXPECT_EQ(first_redone, 0);
      EXPECT_EQ(pass_computed, 16 * 64) << "the last token of each prompt, to be read";
    } else {
      EXPECT_EQ(pass_computed, 0) << "all log-probs are known";
    }
    std::printf("%s: first pass: %lld computed, %lld of them to be read again; second pass: %lld\n",
                name_of(GetParam()), static_cast<long long>(first_pass),
                static_cast<long long>(first_redone), static_cast<long long>(pass_computed));
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.evicted_tokens, 0);
  EXPECT_EQ(stats.tree_tokens, all.prefixes.count());
}

INSTANTIATE_TEST_SUITE_P(Tasks, NothingTwice,
                         testing::Values(Task::kLogits, Task::kLogprobs, Task::kChoices,
                                         Task::kEmbed, Task::kGenerate),
                         [](const auto& task) { return name_of(task.param); });

TEST(Cache, CallsInFlightAtOnceComputeDistinctTokens) {
  for (const char* const rows : {"2048", "100", "9"}) {
    const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "128M"}, {"rows", rows}});
    Computed all;
    std::vector<std::shared_ptr<Job>> jobs;
    for (const std::vector<RequestSpec>& call : template_calls(Task::kLogits)) {
      for (const RequestSpec& spec : call) all.add(spec);
      jobs.push_back(engine->submit(call));
    }
    int64_t computed = 0;
    for (const auto& job : jobs) {
      job->wait(-1);
      ASSERT_EQ(job->totals().failed, 0);
      computed += job->totals().tokens_computed;
    }
    EXPECT_EQ(computed, all.prefixes.count());
    EXPECT_EQ(engine->stats().rows, all.prefixes.count());
    EXPECT_EQ(engine->stats().tree_tokens, all.prefixes.count());
  }
}

}  // namespace
}  // namespace prefix
