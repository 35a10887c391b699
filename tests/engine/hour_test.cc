// An hour of traffic at ten requests a second, as fast as it goes: the budget holds in every
// second, and what the engine says it uses is what the process has.
#include <gtest/gtest.h>

#include <array>

#include "base/page.h"
#include "engine_support.h"
#include "random_requests.h"
#include "support/resident_bytes.h"

namespace prefix {
namespace {

using namespace testing_support;

// Little work and much memory for each token, so that keys and values outweigh everything else: in
// f32, which takes the bytes of heads twice as wide in bf16 for half of their work.
tools::CheckpointShape wide_cache() {
  tools::CheckpointShape shape;
  shape.hidden = 32;
  shape.intermediate = 32;
  shape.layers = 1;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  return shape;
}

// Tokens of the longest request, and of an answer.
constexpr int64_t kLongest = 1500;
constexpr int32_t kAnswer = 12;

// Users with histories that grow turn by turn over system prompts that many share; some go away for
// ever, now and then one comes with a text that is longer than all histories.
class Traffic {
 public:
  explicit Traffic(Engine& engine) : engine_(engine) {
    for (int i = 0; i < 3; ++i) spaces_.push_back(engine.open_namespace(std::to_string(i)));
    for (auto& head : heads_) head = random_tokens(random_, 40 + random_() % 200, kVocab);
    users_.resize(static_cast<size_t>(cases(500)));
  }
  std::vector<RequestSpec> second() {
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 10; ++i) {
      User& user = users_[random_() % users_.size()];
      if (user.tokens.empty() || user.tokens.size() > 900 || random_() % 50 == 0) {
        user.space = spaces_[random_() % spaces_.size()];
        user.tokens = heads_[random_() % heads_.size()];
      }
      for (const int32_t t : random_tokens(random_, 1 + random_() % 30, kVocab))
        user.tokens.push_back(t);
      RequestSpec spec = random_task(random_, user.tokens);
      spec.pooling = Pooling::kLast;  // vectors of all tokens are memory that nothing tracks
      spec.positions.clear();
      if (random_() % 1000 == 0) spec.tokens = random_tokens(random_, kLongest, kVocab);
      if (spec.task == Task::kGenerate) spec.sampling.max_tokens = kAnswer;
      spec.name_space = user.space;
      spec.priority = static_cast<int32_t>(random_() % 3);
      if (random_() % 20 == 0) spec.cache_ttl_ms = 1 + random_() % 20;
      batch.push_back(std::move(spec));
    }
    return batch;
  }
  // Of the histories, which are in the process, too.
  int64_t bytes() const {
    size_t tokens = 0;
    for (const User& user : users_) tokens += user.tokens.capacity();
    return static_cast<int64_t>(tokens * sizeof(int32_t));
  }
  // What an owner does besides.
  void tidy() {
    const User& user = users_[random_() % users_.size()];
    const auto n = static_cast<int64_t>(user.tokens.size());
    switch (random_() % 40) {
      case 0:
        engine_.cache_trim(random_() % (100 << 20));
        break;
      case 1:
        engine_.drop_namespace(spaces_[random_() % spaces_.size()]);
        break;
      case 2:
        engine_.cache_evict(user.space, user.tokens.data(), static_cast<size_t>(n / 2));
        break;
      case 3:
        engine_.set_cache_limits(spaces_[random_() % spaces_.size()],
                                 static_cast<int64_t>(random_() % 2) << 24,
                                 static_cast<int64_t>(random_() % 3) << 26);
        break;
      case 4:
        if (n > 0) pin(user);
        break;
      default:
        break;
    }
  }

 private:
  struct User {
    int32_t space = 0;
    std::vector<int32_t> tokens;
  };

  void pin(const User& user) {
    try {
      engine_.cache_pin(user.space, user.tokens.data(), static_cast<int64_t>(user.tokens.size()),
                        5);
    } catch (const Error& error) {
      // Nothing of it is there, or it went while it was asked for.
      if (error.code() != Code::kNotFound) throw;
    }
  }

  Engine& engine_;
  std::mt19937 random_{59};
  std::vector<int32_t> spaces_;
  std::array<std::vector<int32_t>, 8> heads_;
  std::vector<User> users_;
};

TEST(Hour, TheBudgetHoldsAndWhatIsTrackedIsWhatIsThere) {
  const TinyCheckpoint checkpoint(wide_cache());
  const int64_t page =
      32 * Engine::estimate(checkpoint.path(), make_options({{"dtype", "f32"}})).kv_bytes_per_token;
  const int64_t budget = cases(6200) * page;
  const int64_t before = resident_bytes();
  const auto engine = make_engine(checkpoint, {{"cache_bytes", std::to_string(budget)},
                                               {"cache_policy", "gdsf"},
                                               {"dtype", "f32"},
                                               {"rows", "512"},
                                               {"threads", "1"}});
  Traffic traffic(*engine);
  const auto tracked = [&] {
    const EngineStats s = engine->stats();
    return s.weight_bytes + s.kv_bytes_peak + s.activation_bytes_peak + s.metadata_bytes;
  };
  const int seconds = cases(3600);
  int64_t failed = 0;
  for (int second = 0; second < seconds; ++second) {
    const auto job = engine->submit(traffic.second());
    traffic.tidy();
    job->wait(-1);
    const EngineStats s = engine->stats();
    ASSERT_LE(s.kv_bytes, budget) << "second " << second;
    ASSERT_LE(s.kv_bytes_peak, budget);
    ASSERT_EQ(s.kv_bytes, s.pages_used * page);
    for (size_t i = 0; i < job->count(); ++i) failed += job->result(i).status != Code::kOk;
  }
  const EngineStats end = engine->stats();
  // A request takes its pages at once, or evicts first: what is left free is less than the longest
  // one asks for, with its answer, and what generations have set aside, two pages each.
  const int64_t longest = pages_for(kLongest + kAnswer);
  EXPECT_GE(end.kv_bytes_peak, budget - (longest + 10 * 2) * page)
      << "the budget was not what limited it";
  EXPECT_GT(end.evictions, seconds / 10);
  EXPECT_LT(failed, seconds) << "of " << seconds * 10;
  const auto used = static_cast<double>(resident_bytes() - before - traffic.bytes());
  const auto said = static_cast<double>(tracked());
  std::printf(
      "%d seconds: %lld tokens given, %lld computed, %lld evicted, %lld requests failed; "
      "tracked %.1f MB, resident %.1f MB and %.1f MB of histories\n",
      seconds, static_cast<long long>(end.tokens_given),
      static_cast<long long>(end.tokens_computed), static_cast<long long>(end.evicted_tokens),
      static_cast<long long>(failed), said * 1e-6, used * 1e-6,
      static_cast<double>(traffic.bytes()) * 1e-6);
  // A sanitizer's own memory is in the process too.
  if (!quick()) {
    EXPECT_NEAR(used / said, 1, 0.01);
  }

  for (int32_t space = 0; space < engine->namespace_count(); ++space)
    engine->set_cache_limits(space, 0, 0);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
}

}  // namespace
}  // namespace prefix
