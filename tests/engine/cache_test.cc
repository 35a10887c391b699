// What the cache promises: it changes no bit of a result, computes no token twice, stays within its
// budget, keeps namespaces apart, and looking into it leaves it as it was.
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

// Adds what a request computes, and to `read` the prefixes after which it reads a result.
void add_request(const RequestSpec& spec, Prefixes& prefixes, std::set<int>& read) {
  prefixes.add(spec.tokens);
  const auto n = spec.tokens.size();
  if (spec.task == Task::kLogprobs) {
    for (auto length = static_cast<size_t>(spec.from); length < n; ++length)
      read.insert(prefixes.add(first_tokens(spec.tokens, length)));
  } else if (spec.task == Task::kChoices) {
    for (const std::vector<int32_t>& choice : spec.choices) {
      std::vector<int32_t> tokens = spec.tokens;
      for (const int32_t t : choice) {
        read.insert(prefixes.add(tokens));
        tokens.push_back(t);
      }
      prefixes.add(tokens);
    }
  } else {
    read.insert(prefixes.add(spec.tokens));
  }
}

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
  const auto engine = make_engine(checkpoint(), {{"cache_bytes", "128M"}, {"rows", "65536"}});
  const auto calls = template_calls(GetParam());
  Prefixes prefixes;
  int64_t first_pass = 0, first_redone = 0;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t pass_computed = 0, pass_redone = 0;
    for (const std::vector<RequestSpec>& call : calls) {
      // A row is computed when it is new, and once more in a later call that reads it.
      const int before = prefixes.count();
      std::set<int> read;
      for (const RequestSpec& spec : call) add_request(spec, prefixes, read);
      const int added = prefixes.count() - before;
      const auto redone = std::distance(read.begin(), read.upper_bound(before));
      const auto job = run_all(*engine, call);
      const JobTotals totals = job->totals();
      ASSERT_EQ(totals.failed, 0);
      ASSERT_EQ(totals.tokens_computed, added + redone);
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
        prefixes.add(tokens);
      }
      ASSERT_TRUE(totals.rows == totals.tokens_computed || GetParam() == Task::kGenerate);
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
    }
    std::printf("%s: first pass: %lld computed, %lld of them to be read again; second pass: %lld\n",
                name_of(GetParam()), static_cast<long long>(first_pass),
                static_cast<long long>(first_redone), static_cast<long long>(pass_computed));
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.evicted_tokens, 0);
  EXPECT_EQ(stats.tree_tokens, prefixes.count());
}

INSTANTIATE_TEST_SUITE_P(Tasks, NothingTwice,
                         testing::Values(Task::kLogits, Task::kLogprobs, Task::kChoices,
                                         Task::kEmbed, Task::kGenerate),
                         [](const auto& task) { return name_of(task.param); });

TEST(Cache, CallsInFlightAtOnceComputeDistinctTokens) {
  for (const char* const rows : {"2048", "100", "9"}) {
    const auto engine = make_engine(checkpoint(), {{"cache_bytes", "128M"}, {"rows", rows}});
    Prefixes prefixes;
    std::set<int> read;
    std::vector<std::shared_ptr<Job>> jobs;
    for (const std::vector<RequestSpec>& call : template_calls(Task::kLogits)) {
      for (const RequestSpec& spec : call) add_request(spec, prefixes, read);
      jobs.push_back(engine->submit(call));
    }
    int64_t computed = 0;
    for (const auto& job : jobs) {
      job->wait(-1);
      ASSERT_EQ(job->totals().failed, 0);
      computed += job->totals().tokens_computed;
    }
    EXPECT_EQ(computed, prefixes.count());
    EXPECT_EQ(engine->stats().rows, prefixes.count());
    EXPECT_EQ(engine->stats().tree_tokens, prefixes.count());
  }
}

// --- the budget ----------------------------------------------------------------------------------

struct Pressure {
  const char* name;
  const char* rows;
  const char* cache;
  const char* sharing;
};

class Budget : public testing::TestWithParam<Pressure> {};

RequestSpec pressing_request(std::mt19937& random, const std::vector<std::vector<int32_t>>& heads) {
  std::vector<int32_t> tokens = heads[random() % heads.size()];
  tokens.resize(1 + random() % tokens.size());
  const size_t more = random() % 100 == 0 ? 700 : 1 + random() % 20;  // more than there is room for
  for (const int32_t t : random_tokens(random, more, 3)) tokens.push_back(t);
  RequestSpec spec = random_task(random, std::move(tokens));
  spec.name_space = static_cast<int32_t>(random() % 3);
  spec.priority = static_cast<int32_t>(random() % 3);
  if (random() % 8 == 0) spec.deadline_ms = 1 + random() % 3;
  if (spec.task == Task::kGenerate) {
    spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 40);
    spec.sampling.temperature = 1;
    spec.sampling.top_k = 2;
    spec.sampling.seed = static_cast<int64_t>(random());
  }
  return spec;
}

TEST_P(Budget, IsNeverExceededAndAllOfItComesBack) {
  constexpr int64_t kPages = 20;
  const Pressure& pressure = GetParam();
  const int64_t page =
      32 * Engine::estimate(checkpoint().path(), make_options({})).kv_bytes_per_token;
  const auto engine = make_engine(checkpoint(), {{"cache_bytes", std::to_string(kPages * page)},
                                                 {"threads", "1"},
                                                 {"rows", pressure.rows},
                                                 {"cache", pressure.cache},
                                                 {"sharing", pressure.sharing}});
  engine->open_namespace("a");
  engine->open_namespace("b");
  std::atomic<bool> stop{false};
  std::atomic<int64_t> samples{0}, violations{0};
  const auto sample = [&] {
    const EngineStats s = engine->stats();
    ++samples;
    violations += s.kv_budget_bytes != kPages * page || s.kv_bytes > s.kv_budget_bytes ||
                  s.kv_bytes_peak > s.kv_budget_bytes || s.kv_bytes < 0 ||
                  s.kv_bytes != s.pages_used * page || s.pages_used > s.pages_total;
  };
  std::thread sampler([&] {
    while (!stop) {
      sample();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });

  std::mt19937 random(37);
  std::vector<std::vector<int32_t>> heads;
  while (heads.size() < 12) heads.push_back(random_tokens(random, 20 + random() % 120, 3));
  std::map<Code, int> ends;
  std::deque<std::shared_ptr<Job>> jobs;
  const auto take_oldest = [&] {
    jobs.front()->wait(-1);
    for (size_t i = 0; i < jobs.front()->count(); ++i) ++ends[jobs.front()->result(i).status];
    jobs.pop_front();
  };
  for (int round = 0; round < cases(1500); ++round) {
    std::vector<RequestSpec> batch;
    for (size_t i = 1 + random() % 6; i > 0; --i) batch.push_back(pressing_request(random, heads));
    jobs.push_back(engine->submit(std::move(batch)));
    if (random() % 6 == 0) jobs[random() % jobs.size()]->cancel();
    if (random() % 4 == 0) jobs.back()->cancel(random() % jobs.back()->count());
    if (random() % 20 == 0) engine->cache_trim(static_cast<int64_t>(random() % kPages) * page);
    if (random() % 40 == 0) engine->drop_namespace(static_cast<int32_t>(random() % 3));
    while (jobs.size() > random() % 6) take_oldest();
    sample();
  }
  while (!jobs.empty()) take_oldest();
  sample();
  stop = true;
  sampler.join();
  EXPECT_EQ(violations, 0) << "of " << samples << " samples";
  const EngineStats busy = engine->stats();
  EXPECT_GE(busy.kv_bytes_peak, (kPages - 2) * page) << "the budget was not what limited it";
  if (std::string_view(pressure.cache) == "false") {
    EXPECT_EQ(busy.pages_used, 0);
  } else if (std::string_view(pressure.sharing) == "true") {
    EXPECT_GT(busy.evictions, cases(1500) / 4);
  }
  EXPECT_GT(ends[Code::kOk], cases(1500));
  EXPECT_GT(ends[Code::kCancelled], 0);
  EXPECT_GT(ends[Code::kCacheFull], 0);
  for (const auto& [code, count] : ends)
    EXPECT_TRUE(code == Code::kOk || code == Code::kCancelled || code == Code::kTimeout ||
                code == Code::kCacheFull)
        << static_cast<int>(code) << ": " << count;
  std::printf("%s: %lld samples, %lld evictions; %d finished, %d cancelled, %d late, %d too big\n",
              pressure.name, static_cast<long long>(samples),
              static_cast<long long>(busy.evictions), ends[Code::kOk], ends[Code::kCancelled],
              ends[Code::kTimeout], ends[Code::kCacheFull]);

  engine->cache_trim(0);
  const EngineStats empty = engine->stats();
  EXPECT_EQ(empty.pages_used, 0);
  EXPECT_EQ(empty.kv_bytes, 0);
  EXPECT_EQ(empty.tree_tokens, 0);
  EXPECT_EQ(empty.requests_running + empty.requests_waiting, 0);
  // No page is lost, and none is still promised to somebody.
  const auto all = run_all(*engine, {logits_of(random_tokens(random, kPages * 32, kVocab))});
  EXPECT_EQ(all->result(0).status, Code::kOk) << all->result(0).message;
  const auto more = run_all(*engine, {logits_of(random_tokens(random, kPages * 32 + 1, kVocab))});
  EXPECT_EQ(more->result(0).status, Code::kCacheFull);
}

INSTANTIATE_TEST_SUITE_P(Pressures, Budget,
                         testing::Values(Pressure{"usual", "2048", "true", "true"},
                                         Pressure{"rows_of_3", "3", "true", "true"},
                                         Pressure{"cache_off", "2048", "false", "true"},
                                         Pressure{"sharing_off", "64", "true", "false"}),
                         [](const auto& pressure) { return pressure.param.name; });

// Requests that continue a running generation by another token than it is about to draw: it leaves
// each of them by a branch, which takes a page.
TEST(Cache, FollowersOfAGenerationDoNotBreakTheBudget) {
  tools::CheckpointShape shape;  // with steps long enough to submit something in one
  shape.hidden = 256;
  shape.layers = 4;
  shape.intermediate = 2048;
  const TinyCheckpoint slow(shape);
  const int64_t page = 32 * Engine::estimate(slow.path(), make_options({})).kv_bytes_per_token;
  std::mt19937 random(47);
  for (const int32_t pages : {7, 12, 60}) {
    const auto engine = make_engine(
        slow, {{"cache_bytes", std::to_string(pages * page)}, {"threads", "1"}, {"rows", "64"}});
    RequestSpec leader;
    leader.task = Task::kGenerate;
    leader.tokens = random_tokens(random, 20, kVocab);
    leader.sampling.max_tokens = 40;
    leader.sampling.ignore_eos = true;
    const std::vector<int32_t> drawn = run_all(*engine, {leader})->result(0).tokens;
    engine->cache_trim(0);

    const auto job = engine->submit({leader});
    std::vector<std::shared_ptr<Job>> followers;
    size_t seen = 0;
    while (const auto event = job->next_event(-1)) {
      if (event->kind != Event::kToken || ++seen + 1 >= drawn.size()) continue;
      std::vector<int32_t> tokens = leader.tokens;
      tokens.insert(tokens.end(), drawn.begin(), drawn.begin() + static_cast<ptrdiff_t>(seen) + 1);
      tokens.push_back((drawn[seen + 1] + 1) % kVocab);
      followers.push_back(engine->submit({logits_of(tokens)}));
      const EngineStats stats = engine->stats();
      ASSERT_LE(stats.pages_used, pages);
    }
    // With less than a page for each token some may have to give up; what was drawn is right.
    const bool enough = pages >= 60;
    const auto expect_fair_end = [&](const RequestResult& result) {
      EXPECT_TRUE(result.status == Code::kOk || (!enough && result.status == Code::kCacheFull))
          << result.message;
    };
    for (const auto& follower : followers) {
      follower->wait(-1);
      expect_fair_end(follower->result(0));
    }
    EXPECT_LE(engine->stats().kv_bytes_peak, pages * page);
    const RequestResult& result = job->result(0);
    expect_fair_end(result);
    ASSERT_LE(result.tokens.size(), drawn.size());
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), drawn.begin()));
    std::printf("%d pages: %zu tokens\n", pages, result.tokens.size());
    engine->cache_trim(0);
    EXPECT_EQ(engine->stats().pages_used, 0);
    const auto all = run_all(
        *engine, {logits_of(random_tokens(random, static_cast<size_t>(pages) * 32, kVocab))});
    EXPECT_EQ(all->result(0).status, Code::kOk) << all->result(0).message;
  }
}

TEST(Cache, QuotaHoldsForGenerationsAtTheSameTime) {
  const auto engine = make_engine(checkpoint());
  const int32_t space = engine->open_namespace("tenant");
  const int64_t token = engine->info().kv_bytes_per_token;
  engine->set_cache_limits(space, 0, 200 * token);
  std::mt19937 random(53);
  std::vector<RequestSpec> batch(6);
  for (RequestSpec& spec : batch) {
    spec.name_space = space;
    spec.tokens = random_tokens(random, 20, kVocab);
    spec.sampling.max_tokens = 100;
    spec.sampling.ignore_eos = true;
  }
  const auto job = engine->submit(batch);
  int64_t most = 0;
  while (!job->done()) {
    job->next_event(10);
    most = std::max(most, engine->cache_usage(space).tokens);
  }
  EXPECT_LE(most, 200);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
}

// --- isolation -----------------------------------------------------------------------------------

// Names that an encoding could confuse: parts shifted, zero bytes, one longer than the other.
std::vector<std::string> confusing_names() {
  using namespace std::string_literals;
  std::vector<std::string> names{
      ""s,   "a"s,    "b"s,        "c"s,      "ab"s,    "bc"s,     "abc"s,      "a\0"s,   "\0a"s,
      "\0"s, "\0\0"s, "a\0b"s,     "a\0\0b"s, "ab\0"s,  "\0ab"s,   "a\0bc"s,    "ab\0c"s, "a/b"s,
      "a/"s, "/b"s,   "a b"s,      " a"s,     "a "s,    "A"s,      "0"s,        "1"s,     "00"s,
      "-1"s, "\xff"s, "\xc3\xa4"s, "a\n"s,    "a\r\n"s, "4:abcd"s, "1:a3:bcd"s, "a\0c"s,  "[a]"s};
  const std::string very_long(1 << 20, 'x');
  names.push_back(very_long);
  names.push_back(very_long + 'x');
  names.push_back(very_long + '\0');
  names.push_back(very_long.substr(1) + 'y');
  names.push_back('y' + very_long.substr(1));
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  for (size_t n = 4; n <= alphabet.size(); ++n) names.push_back(alphabet.substr(0, n));
  return names;
}

// Namespace i holds prompts that begin with token i, which no other one has. A name's last bytes
// and a prompt's first tokens make the same bytes as another pair: ("ab", "c...") and ("a",
// "bc...").
TEST(Cache, NamespacesNeverMeet) {
  const auto engine = make_engine(checkpoint());
  const std::vector<std::string> names = confusing_names();
  ASSERT_LT(names.size(), static_cast<size_t>(kVocab));
  std::mt19937 random(41);
  std::vector<int32_t> ids;
  std::vector<std::vector<std::vector<int32_t>>> prompts(names.size());
  for (const std::string& name : names) ids.push_back(engine->open_namespace(name));
  ASSERT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(engine->find_namespace(names[i]), ids[i]);
    const bool part = i > 0 && names[i].size() < 26 &&
                      std::string_view("abcdefghijklmnopqrstuvwxyz").starts_with(names[i]);
    const auto first = static_cast<int32_t>(i);
    for (int k = 0; k < 4; ++k) {
      // 97 is 'a': namespace "abc" has the prompt "defgh...", as far as the letters reach.
      std::vector<int32_t> tokens{first};
      if (k == 0 && part) {
        tokens.clear();
        for (int32_t letter = 97 + static_cast<int32_t>(names[i].size()); letter < 97 + 26;
             ++letter)
          tokens.push_back(letter);
      }
      for (const int32_t t : random_tokens(random, 5 + random() % 60, kVocab)) tokens.push_back(t);
      prompts[i].push_back(std::move(tokens));
    }
  }
  ASSERT_LT(names.size(), 97u) << "first tokens and letters must differ";
  std::vector<RequestSpec> batch;
  std::vector<std::string> by_name;
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::vector<int32_t>& tokens : prompts[i]) {
      batch.push_back(logits_of(tokens, i % 2 ? ids[i] : 0));
      by_name.push_back(i % 2 ? "" : names[i]);
    }
  const auto job = engine->submit(batch, by_name);
  job->wait(-1);
  ASSERT_EQ(job->totals().failed, 0);

  int64_t hits = 0;
  for (int i = 0; i < cases(1000000); ++i) {
    const size_t owner = random() % names.size();
    const size_t other = (owner + 1 + random() % (names.size() - 1)) % names.size();
    const CacheInfo found = look_up(*engine, prompts[owner][random() % 4], ids[other]);
    hits += found.cached_tokens + found.pending_tokens;
  }
  EXPECT_EQ(hits, 0);
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::vector<int32_t>& tokens : prompts[i])
      EXPECT_EQ(look_up(*engine, tokens, ids[i]).cached_tokens,
                static_cast<int64_t>(tokens.size()));

  // Nor do requests meet: the same tokens are computed anew, with the same result.
  for (int i = 0; i < cases(300); ++i) {
    const size_t owner = random() % names.size();
    const size_t other = (owner + 1 + random() % (names.size() - 1)) % names.size();
    const auto own = run_all(*engine, {logits_of(prompts[owner][1], ids[owner])});
    const auto foreign = run_all(*engine, {logits_of(prompts[owner][1], ids[other])});
    const auto n = static_cast<int64_t>(prompts[owner][1].size());
    ASSERT_EQ(own->result(0).usage.cached, n - 1);
    ASSERT_EQ(foreign->result(0).usage.cached, 0);
    ASSERT_EQ(foreign->result(0).usage.computed, n);
    ASSERT_TRUE(same_bits(own->result(0), foreign->result(0)));
    ASSERT_EQ(engine->drop_namespace(ids[other]) > 0, true);
    std::vector<RequestSpec> again;
    for (const std::vector<int32_t>& tokens : prompts[other])
      again.push_back(logits_of(tokens, ids[other]));
    run_all(*engine, again);
  }
}

// --- looking changes nothing ---------------------------------------------------------------------

// Two engines with the same past; only one is looked into.
TEST(Cache, AMillionLookupsLeaveTheOrderOfEviction) {
  const auto watched = make_engine(checkpoint());
  const auto unseen = make_engine(checkpoint());
  std::mt19937 random(43);
  constexpr size_t kPrompts = 60;
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < kPrompts; ++i) {
    prompts.push_back(random_tokens(random, 3 + random() % 120, kVocab));
    prompts.back()[0] = static_cast<int32_t>(i);  // a path of its own
  }
  std::vector<size_t> order(kPrompts);  // of last use
  for (size_t i = 0; i < kPrompts; ++i) order[i] = i;
  for (const size_t i : order)
    for (Engine* engine : {watched.get(), unseen.get()}) run_all(*engine, {logits_of(prompts[i])});
  for (int i = 0; i < 100; ++i) {
    const size_t at = random() % kPrompts;
    const size_t used = order[at];
    order.erase(order.begin() + static_cast<ptrdiff_t>(at));
    order.push_back(used);
    for (Engine* engine : {watched.get(), unseen.get()})
      run_all(*engine, {logits_of(prompts[used])});
  }

  const std::string before = watched->tree_json();
  ASSERT_EQ(before, unseen->tree_json());
  for (int i = 0; i < cases(1000000); ++i) {
    // Mostly what would go first, whole, in part, or with a strange end.
    const std::vector<int32_t>& tokens = prompts[order[random() % (random() % kPrompts + 1)]];
    const size_t n = 1 + random() % tokens.size();
    ASSERT_EQ(watched->cache_lookup(0, tokens.data(), n).cached_tokens, static_cast<int64_t>(n));
    if (i % 10 == 0) {
      const std::vector<int32_t> other = random_tokens(random, 40, kVocab);
      ASSERT_LT(look_up(*watched, other).cached_tokens, 40);
    }
  }
  ASSERT_EQ(before, watched->tree_json());

  // Page by page: the least recently used prompt loses its last page, until it is gone.
  const int64_t page = 32 * watched->info().kv_bytes_per_token;
  for (const size_t i : order) {
    for (auto left = static_cast<int64_t>(prompts[i].size()); left > 0;) {
      const int64_t target = watched->stats().kv_bytes - page;
      const int64_t freed = left % 32 == 0 ? 32 : left % 32;
      ASSERT_EQ(watched->cache_trim(target), freed);
      ASSERT_EQ(unseen->cache_trim(target), freed);
      left -= freed;
      ASSERT_EQ(look_up(*watched, prompts[i]).cached_tokens, left) << "prompt " << i;
      ASSERT_EQ(watched->tree_json(), unseen->tree_json());
    }
  }
  EXPECT_EQ(watched->stats().pages_used, 0);
}

}  // namespace
}  // namespace prefix
