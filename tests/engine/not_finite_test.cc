// A NaN or an infinity stays with the requests that have the token it comes from: all others give
// the bits that they give alone, in one step, between steps, and through every place that pages go.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "../cache/redis_support.h"
#include "cache/snapshot_file.h"
#include "ops/finite.h"
#include "poisoned_checkpoint.h"
#include "recurrent_support.h"
#include "snapshot_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

class PoisonedCheckpoint {
 public:
  explicit PoisonedCheckpoint(const Poison& poison) {
    StoredWeights weights(checkpoint_.path());
    poison.apply(weights);
  }
  operator const TinyCheckpoint&() const { return checkpoint_; }

 private:
  TinyCheckpoint checkpoint_{poisoned_shape()};
};

bool has_bad(const Tokens& tokens) {
  return std::find(tokens.begin(), tokens.end(), kBadToken) != tokens.end();
}
// Among the tokens that are computed: the last one of a text or of a choice may be only scored.
bool has_bad(const RequestSpec& spec) {
  const auto last = static_cast<size_t>(spec.scores_last());
  if (spec.task != Task::kChoices)
    return has_bad(first_tokens(spec.tokens, spec.tokens.size() - last));
  return has_bad(spec.tokens) || std::ranges::any_of(spec.choices, [&](const Tokens& c) {
           return has_bad(first_tokens(c, c.size() - last));
         });
}

// --- random trees --------------------------------------------------------------------------------

// Continues an earlier prompt, often from before a bad token on; has one now and then.
Tokens tree_prompt(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  Tokens tokens;
  if (!earlier.empty() && random() % 6) {
    const Tokens& from = earlier[random() % earlier.size()].tokens;
    const auto bad = std::find(from.begin(), from.end(), kBadToken) - from.begin();
    size_t shared = 1 + random() % from.size();
    if (random() % 4) shared = std::min(shared, static_cast<size_t>(bad));
    if (random() % 4 == 0) shared = static_cast<size_t>(bad);
    tokens = first_tokens(from, shared);
  }
  const size_t more = 1 + (random() % 4 ? random() % 20 : random() % 70);
  for (int32_t t : random_tokens(random, more, kVocab))
    tokens.push_back(t == kBadToken ? t + 1 : t);
  tokens.resize(std::clamp<size_t>(tokens.size(), 2, 120), 1);
  if (random() % 3 == 0)
    tokens[tokens.size() - 1 - random() % std::min(more, tokens.size() - 1)] = kBadToken;
  return tokens;
}

using Batch = std::vector<RequestSpec>;

// Requests in batches, and what engines answer that share and keep nothing: those without a bad
// token have one to themselves.
struct Trees {
  Trees(std::mt19937& random, const TinyCheckpoint& checkpoint, const EngineOptions& level, int n) {
    std::vector<RequestSpec> all;
    for (int b = 0; b < n; ++b) {
      Batch& batch = batches.emplace_back();
      for (size_t i = 1 + random() % 5; i > 0; --i) {
        RequestSpec spec = random_task(random, tree_prompt(random, all));
        if (random() % 8 == 0) {
          spec.task = Task::kWarm;
          spec.choices.clear();
        }
        batch.push_back(spec);
        all.push_back(std::move(spec));
      }
    }
    EngineOptions alone = level;
    alone.insert({{"cache", "false"}, {"sharing", "false"}, {"rows", "512"}});
    std::array<std::shared_ptr<Engine>, 2> engines;
    for (auto& engine : engines) engine = open_over("", 64, alone, checkpoint);
    for (const Batch& batch : batches) {
      std::vector<RequestResult>& results = expected.emplace_back();
      for (const RequestSpec& spec : batch) {
        const bool bad = has_bad(spec);
        results.push_back(run_all(*engines[bad ? 1 : 0], {spec})->result(0));
        (bad ? bad_requests : clean_requests) += 1;
      }
    }
  }

  // Runs the batches, in this order or any other.
  void run(Engine& engine, std::mt19937* shuffle, const std::string& where) const {
    std::vector<size_t> order(batches.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (shuffle) std::shuffle(order.begin(), order.end(), *shuffle);
    for (const size_t b : order) {
      const auto job = run_all(engine, batches[b]);
      for (size_t i = 0; i < batches[b].size(); ++i) {
        const RequestResult& got = job->result(i);
        const RequestResult& want = expected[b][i];
        ASSERT_EQ(got.status, want.status)
            << where << ", batch " << b << ", request " << i << ": " << got.message;
        if (want.status != Code::kOk) continue;
        ASSERT_TRUE(same_bits(got, want)) << where << ", batch " << b << ", request " << i;
      }
    }
  }

  std::vector<Batch> batches;
  std::vector<std::vector<RequestResult>> expected;
  int bad_requests = 0, clean_requests = 0;
};

struct Level {
  std::string isa, dtype;
};

std::vector<Level> levels() {
  std::vector<Level> list;
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    for (const char* dtype : {"bf16", "f32"}) list.push_back({std::string(level.name), dtype});
  return list;
}

class NotFinite : public testing::TestWithParam<Level> {};

void check_pages(const std::string& path, ops::KvType type) {
  const SnapshotBytes file(path);
  SnapshotReader reader(path, file.shape);
  std::vector<std::byte> page(file.shape.page_bytes);
  for (size_t i = 0; i < reader.index().nodes.size(); ++i) {
    const SnapshotNode& n = reader.index().nodes[i];
    for (int32_t p = 0; p < pages_between(n.start, n.end()); ++p) {
      ASSERT_TRUE(reader.read_page(i, p, page));
      ASSERT_TRUE(ops::all_finite(page.data(), page.size(), type)) << "node " << i;
    }
  }
}

TEST_P(NotFinite, StaysWithItsRequestsInMemoryDiskStoreAndSnapshot) {
  const auto& [isa, dtype] = GetParam();
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    if (level.name == isa && !level.available) GTEST_SKIP() << "this machine lacks " << isa;
  constexpr int kBatches = 20;  // for each of 11 poisons and the 10 levels of a machine with AMX
  std::unique_ptr<RedisServer> store;
  if (no_redis().empty()) store = std::make_unique<RedisServer>();
  const EngineOptions options = {{"isa", isa}, {"dtype", dtype}};
  const auto with = [&](EngineOptions more) {
    more.insert(options.begin(), options.end());
    return more;
  };
  int trees = 0, bad = 0, clean = 0;
  int64_t fetched[2] = {0, 0}, loaded = 0;
  auto seed = static_cast<unsigned>(std::hash<std::string>()(isa + dtype));
  for (const Poison& poison : poisons()) {
    SCOPED_TRACE(poison.name);
    std::mt19937 random(++seed);
    const PoisonedCheckpoint checkpoint(poison);
    const Trees known(random, checkpoint, options, cases(10 * kBatches) / 10);
    for (size_t b = 0; b < known.batches.size(); ++b)
      for (size_t i = 0; i < known.batches[b].size(); ++i) {
        const RequestResult& r = known.expected[b][i];
        const bool fails = poison.always_fails && has_bad(known.batches[b][i]);
        ASSERT_TRUE(r.status == Code::kNotFinite || (r.status == Code::kOk && !fails))
            << "batch " << b << ", request " << i << ": " << r.message;
      }

    const TempFolder folder;
    const std::string snapshot = folder / "snapshot";
    {
      const auto engine = open_over("", 40, with({{"rows", "512"}}), checkpoint);
      known.run(*engine, nullptr, "memory");
      known.run(*engine, &random, "memory, again");
      engine->save_snapshot(snapshot, {});
      check_pages(snapshot, dtype == "f32" ? ops::KvType::kF32 : ops::KvType::kBf16);
    }
    {
      const auto engine = open_over("", 64, options, checkpoint);
      loaded += engine->load_snapshot(snapshot).tokens;
      known.run(*engine, &random, "snapshot");
    }
    for (const bool disk : {true, false}) {
      if (!disk && !store) continue;
      for (int turn = 0; turn < 2; ++turn) {
        const auto engine =
            open_over(disk ? folder.path() : "", 40,
                      disk ? options : with({{"cache_store", store->url()}}), checkpoint);
        known.run(*engine, &random, disk ? "disk" : "store");
        fetched[disk] += engine->stats().fetched_tokens;
      }
    }
    if (HasFatalFailure()) return;
    trees += static_cast<int>(known.batches.size());
    bad += known.bad_requests;
    clean += known.clean_requests;
  }
  EXPECT_GT(clean, bad / 2);
  EXPECT_GT(bad, clean / 8);
  EXPECT_GT(loaded, 0);
  EXPECT_GT(fetched[1], 0);
  EXPECT_TRUE(!store || fetched[0] > 0);
  std::printf(
      "%d trees: %d requests with the bad token, %d without; tokens from disk %lld, store "
      "%lld, snapshots %lld\n",
      trees, bad, clean, static_cast<long long>(fetched[1]), static_cast<long long>(fetched[0]),
      static_cast<long long>(loaded));
}

INSTANTIATE_TEST_SUITE_P(Levels, NotFinite, testing::ValuesIn(levels()), [](const auto& level) {
  return level.param.isa + "_" + level.param.dtype;
});

// --- one at a time -------------------------------------------------------------------------------

const Poison& poison(std::string_view name) {
  return *std::find_if(poisons().begin(), poisons().end(),
                       [&](const Poison& p) { return p.name == name; });
}

TEST(NotFiniteRequest, SaysWhereAndKeepsWhatIsBeforeIt) {
  const PoisonedCheckpoint checkpoint(poison("nan"));
  const auto engine = make_engine(checkpoint);
  std::mt19937 random(5);
  Tokens tokens = random_tokens(random, 100, kBadToken);
  tokens[70] = kBadToken;
  const auto job = run_all(*engine, {logits_of(tokens), logits_of(first_tokens(tokens, 75)),
                                     logits_of(first_tokens(tokens, 70))});
  for (const size_t i : {0u, 1u}) {
    const RequestResult& result = job->result(i);
    EXPECT_EQ(result.status, Code::kNotFinite);
    EXPECT_EQ(result.finish, Finish::kError);
    EXPECT_NE(result.message.find("token 7 at position 70 is not finite"), std::string::npos)
        << result.message;
  }
  EXPECT_EQ(job->result(2).status, Code::kOk) << job->result(2).message;
  EXPECT_EQ(look_up(*engine, tokens).cached_tokens, 70);
  EXPECT_EQ(look_up(*engine, tokens).pending_tokens, 0) << "nothing is pending";
  EXPECT_EQ(engine->state(), EngineState::kReady);
}

TEST(NotFiniteRequest, AGenerationThatRunsOnEndsAlone) {
  const TinyCheckpoint checkpoint(poisoned_shape());
  std::mt19937 random(6);
  RequestSpec spec;
  spec.tokens = random_tokens(random, 40, kVocab);
  spec.sampling.max_tokens = 12;
  spec.sampling.ignore_eos = true;
  const Tokens drawn = run_all(*make_engine(checkpoint), {spec})->result(0).tokens;
  const int32_t bad = drawn[5];
  const auto first =
      static_cast<size_t>(std::find(drawn.begin(), drawn.end(), bad) - drawn.begin());
  ASSERT_EQ(std::count(spec.tokens.begin(), spec.tokens.end(), bad), 0) << "choose another seed";
  StoredWeights(checkpoint.path()).set("model.embed_tokens.weight", bad, 3, NAN);

  const auto engine = make_engine(checkpoint);
  const auto job = run_all(*engine, {spec, logits_of(spec.tokens)});
  EXPECT_EQ(job->result(0).status, Code::kNotFinite);
  EXPECT_EQ(job->result(0).tokens, first_tokens(drawn, first + 1)) << "what was drawn before it";
  EXPECT_EQ(job->result(1).status, Code::kOk) << job->result(1).message;
  Tokens path = spec.tokens;
  path.insert(path.end(), drawn.begin(), drawn.end());
  EXPECT_EQ(look_up(*engine, path).cached_tokens, static_cast<int64_t>(40 + first));
}

// In the embedding, which is not the output matrix.
void poison_token(const TinyCheckpoint& checkpoint, const tools::CheckpointShape& shape,
                  int32_t token) {
  const char* const embedding = shape.architecture == "nemotron_h" ? "backbone.embeddings.weight"
                                                                   : "model.embed_tokens.weight";
  StoredWeights(checkpoint.path()).set(embedding, token, 3, NAN);
}

// What it has is the state behind the NaN, which nobody may go on from.
TEST(NotFiniteStates, AGenerationLeavesNoStateOfTheStepThatFailed) {
  for (const char* const family : {"granite", "qwen", "nemotron", "lfm2"}) {
    SCOPED_TRACE(family);
    tools::CheckpointShape shape = hybrid_shape(family);
    shape.tied = false;
    const TinyCheckpoint checkpoint(shape);
    std::mt19937 random(9);
    const Tokens prompt = random_tokens(random, 40, kBadToken);
    RequestSpec spec = generation(prompt, 12);
    spec.sampling.temperature = 100;  // many different tokens
    spec.sampling.seed = 3;
    const Tokens drawn = run_all(*make_engine(checkpoint), {spec})->result(0).tokens;
    const auto bad = std::find_if(drawn.begin() + 2, drawn.end(), [&](int32_t token) {
      return token >= kBadToken && token != drawn[0] && token != drawn[1];
    });
    ASSERT_NE(bad, drawn.end()) << "choose another seed";
    poison_token(checkpoint, shape, *bad);

    const auto engine = make_engine(checkpoint);
    EXPECT_EQ(run_all(*engine, {spec})->result(0).status, Code::kNotFinite);
    const RequestSpec next = logits_of(joined(joined(prompt, {drawn.begin(), bad}), {1, 2}));
    const RequestResult want = run_all(*make_engine(checkpoint), {next})->result(0);
    const RequestResult got = run_all(*engine, {next})->result(0);
    ASSERT_EQ(want.status, Code::kOk) << want.message;
    EXPECT_TRUE(same_bits(got, want)) << got.message;
    // In its first step there is no state yet.
    EXPECT_EQ(run_all(*engine, {generation({*bad, 1, 2}, 3)})->result(0).status, Code::kNotFinite);
    engine->check();
  }
}

// A state of a request that ends in its step goes nowhere: least of all to a node that another one has
// made in the place of its own.
TEST(NotFiniteStates, OthersOfTheStepHaveTheirOwn) {
  for (const char* const family : {"granite", "qwen", "nemotron", "lfm2"}) {
    SCOPED_TRACE(family);
    tools::CheckpointShape shape = hybrid_shape(family);
    shape.tied = false;
    const TinyCheckpoint checkpoint(shape);
    poison_token(checkpoint, shape, kBadToken);
    std::mt19937 random(9);
    const Tokens fine = random_tokens(random, 100, kBadToken);
    const auto engine = make_engine(checkpoint);
    const auto job = run_all(*engine, {generation(fine, 2), generation({kBadToken, 1, 2, 3}, 2)});
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    EXPECT_EQ(job->result(1).status, Code::kNotFinite);
    const RequestSpec next = logits_of(joined(first_tokens(fine, 10), {1, 2}));
    const RequestResult got = run_all(*engine, {next})->result(0);
    EXPECT_EQ(got.status, Code::kOk) << got.message;
    EXPECT_TRUE(same_bits(got, run_all(*make_engine(checkpoint), {next})->result(0)));
    engine->check();
  }
}

// A snapshot of a library that did not look, or of somebody else.
TEST(NotFiniteRequest, APageOfASnapshotIsNotLoadedNorWhatIsBehindIt) {
  std::mt19937 random(8);
  const Tokens tokens = random_tokens(random, 160, kVocab);
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  std::vector<float> want;
  {
    const auto engine = open_engine(16);
    want = run_all(*engine, {logits_of(tokens)})->result(0).values;
    ASSERT_EQ(engine->save_snapshot(path, {}).tokens, 160);
  }
  SnapshotBytes file(path);
  ASSERT_EQ(file.page_count(), 5u);
  char* const page = file.text.data() + file.page_at(2);
  const uint16_t infinity = 0x7f80;
  std::memcpy(page + file.shape.page_bytes - 2 * sizeof infinity, &infinity, sizeof infinity);
  Sha256 hash;
  hash.update(page, file.shape.page_bytes);
  const Sha256::Digest digest = hash.finish();
  std::memcpy(page + file.shape.page_bytes, digest.data(), digest.size());
  folder.write("snapshot", file.text);

  const auto engine = open_engine(16);
  const SnapshotResult loaded = engine->load_snapshot(path);
  EXPECT_EQ(loaded.tokens, 64);
  EXPECT_EQ(loaded.skipped_tokens, 96);
  const auto job = run_all(*engine, {logits_of(tokens)});
  EXPECT_TRUE(same_bits(job->result(0).values, want)) << job->result(0).message;
}

// A row of the output matrix spoils the results that read it, no keys and values.
TEST(NotFiniteRequest, OfTheOutputsOnlyThoseThatReadIt) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    const TinyCheckpoint checkpoint(poisoned_shape());
    StoredWeights(checkpoint.path()).set("lm_head.weight", kBadToken, 3, value);
    const auto engine = make_engine(checkpoint);
    const Tokens tokens = {1, 2, 3, 4, 5};
    RequestSpec bad = logits_of(tokens), clean = logits_of(tokens);
    bad.logit_ids = {0, kBadToken};  // of one panel with those that are finite
    clean.logit_ids = {kBadToken - 1, kBadToken + 1, 40};
    RequestSpec scores;
    scores.task = Task::kLogprobs;
    scores.tokens = {1, 2, kBadToken, 4};
    RequestSpec embedding;
    embedding.task = Task::kEmbed;
    embedding.tokens = tokens;
    const auto job = run_all(*engine, {bad, clean, scores, embedding, clean});
    const auto expect_refused = [](const RequestResult& result, const char* where) {
      EXPECT_EQ(result.status, Code::kNotFinite) << result.message;
      EXPECT_NE(result.message.find(where), std::string::npos) << result.message;
    };
    expect_refused(job->result(0), "position 4");
    expect_refused(job->result(2), "position");
    for (const size_t i : {1u, 3u, 4u}) EXPECT_EQ(job->result(i).status, Code::kOk) << i;
    EXPECT_EQ(look_up(*engine, tokens).cached_tokens, 5) << "its keys and values are as they are";
  }
}

TEST(NotFiniteRequest, OfGenerationsThatReadTheWholeRowOrAPart) {
  const TinyCheckpoint checkpoint(poisoned_shape());
  StoredWeights(checkpoint.path()).set_row("lm_head.weight", kBadToken, NAN);
  const auto engine = make_engine(checkpoint);
  for (const int32_t top_k : {0, 1, 20}) {
    for (const float temperature : {0.0f, 0.7f}) {
      RequestSpec spec;
      spec.tokens = {1, 2, 3};
      spec.sampling.temperature = temperature;
      spec.sampling.top_k = top_k;
      const auto job = run_all(*engine, {spec});
      EXPECT_EQ(job->result(0).status, Code::kNotFinite) << job->result(0).message;
      EXPECT_TRUE(job->result(0).tokens.empty());
    }
  }
  EXPECT_EQ(run_all(*engine, {logits_of({1, 2, 3})})->result(0).status, Code::kOk);
}

TEST(NotFiniteRequest, AZeroEmbeddingStaysZero) {
  const TinyCheckpoint checkpoint(poisoned_shape());
  StoredWeights(checkpoint.path()).set_row("model.norm.weight", 0, 0);
  RequestSpec spec;
  spec.task = Task::kEmbed;
  spec.tokens = {1, 2, 3};
  const auto job = run_all(*make_engine(checkpoint), {spec});
  ASSERT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  EXPECT_EQ(job->result(0).values, std::vector<float>(32));
}

}  // namespace
}  // namespace prefix
