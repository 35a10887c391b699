// Every option of a request does what it says, through the C interface: one that is read and lost
// on the way would change nothing that other tests see.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

const Tokens kPrompt = {5, 9, 2};

struct Generated {
  Tokens tokens;
  std::vector<float> logprobs;
  int32_t finish;
};

Generated generate(prefix_engine* engine, Settings settings) {
  const Options options = make_options(settings);
  const Batch batch = make_batch(engine);
  add_generate(batch, kPrompt, options);
  const Job job = run(engine, batch);
  const prefix_result_info info = info_of(job, 0);
  EXPECT_EQ(info.status, PREFIX_OK) << message_of(job, 0);
  Generated result;
  result.finish = info.finish;
  size_t needed = 0;
  result.tokens.resize(5000);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_tokens(job, 0, result.tokens.data(), 5000, &needed, e);
  });
  result.tokens.resize(needed);
  result.logprobs.resize(5000);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_logprobs(job, 0, result.logprobs.data(), 5000, &needed, e);
  });
  result.logprobs.resize(needed);
  return result;
}

TEST(RequestOptions, Checkpoint) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_generate(batch, kPrompt, make_options({{"checkpoint", "2,3"}}));
  add_generate(batch, kPrompt, make_options({{"checkpoint", "2,9"}}));
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
  EXPECT_EQ(info_of(job, 1).status, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(message_of(job, 1), "checkpoint[1] is 9; the prompt has 3 tokens");
}

TEST(RequestOptions, OfDrawing) {
  const Engine engine = make_engine();
  const auto tokens = [&](Settings settings) { return generate(engine, settings).tokens; };
  const Tokens greedy = tokens({{"max_tokens", "40"}, {"ignore_eos", "true"}});
  ASSERT_EQ(greedy.size(), 40u);
  const Tokens hot = tokens(
      {{"max_tokens", "40"}, {"ignore_eos", "true"}, {"temperature", "1000"}, {"seed", "1"}});
  EXPECT_NE(hot, greedy);
  EXPECT_EQ(
      hot,
      tokens(
          {{"max_tokens", "40"}, {"ignore_eos", "true"}, {"temperature", "1000"}, {"seed", "1"}}));
  EXPECT_NE(
      hot,
      tokens(
          {{"max_tokens", "40"}, {"ignore_eos", "true"}, {"temperature", "1000"}, {"seed", "2"}}));
  // Each of these leaves the likeliest token alone to be drawn.
  for (const auto& [key, value] : {std::pair{"top_k", "1"}, {"top_p", "0.000001"}, {"min_p", "1"}})
    EXPECT_EQ(greedy, tokens({{"max_tokens", "40"},
                              {"ignore_eos", "true"},
                              {"temperature", "1000"},
                              {"seed", "1"},
                              {key, value}}))
        << key;
  const Tokens once =
      tokens({{"max_tokens", "40"}, {"ignore_eos", "true"}, {"repetition_penalty", "1000"}});
  EXPECT_EQ(std::set(once.begin(), once.end()).size(), once.size());
  EXPECT_LT(std::set(greedy.begin(), greedy.end()).size(), greedy.size());
}

TEST(RequestOptions, OfWhatIsLikelier) {
  const Engine engine = make_engine();
  const auto tokens = [&](const char* key, const char* value) {
    return generate(engine, {{"max_tokens", "40"}, {"ignore_eos", "true"}, {key, value}}).tokens;
  };
  const Tokens greedy = tokens("seed", "1");
  const auto most = [](const Tokens& list) {
    std::map<prefix_token, int> counts;
    for (const prefix_token token : list) ++counts[token];
    return std::ranges::max_element(counts, {}, &std::pair<const prefix_token, int>::second)
        ->second;
  };
  // The model likes to say the same again.
  EXPECT_LT(most(tokens("frequency_penalty", "2")), most(greedy));
  EXPECT_GT(most(tokens("frequency_penalty", "-2")), most(tokens("frequency_penalty", "2")));
  EXPECT_NE(tokens("presence_penalty", "2"), tokens("frequency_penalty", "2"));
  const Tokens biased = tokens("logit_bias", "77:100");
  EXPECT_EQ(most(biased), std::ranges::count(biased, 77));
  EXPECT_EQ(tokens("logit_bias", "77:0"), greedy);
  EXPECT_EQ(std::ranges::count(greedy, 77), 0);
}

TEST(RequestOptions, OfWhatMayCome) {
  const Engine engine = make_engine();
  const Generated two = generate(engine, {{"max_tokens", "40"},
                                          {"temperature", "1000"},
                                          {"seed", "4"},
                                          {"allowed_tokens", "77,5"},
                                          {"logprobs", "true"}});
  EXPECT_EQ(std::ranges::count(two.tokens, 77) + std::ranges::count(two.tokens, 5), 40);
  EXPECT_GT(std::ranges::count(two.tokens, 77), 5);
  EXPECT_GT(std::ranges::count(two.tokens, 5), 5);
  EXPECT_LT(two.logprobs.front(), -1) << "of the model's own distribution";
  const Generated longer = generate(engine, {{"max_tokens", "40"},
                                             {"temperature", "1000"},
                                             {"seed", "4"},
                                             {"allowed_tokens", "77,5"},
                                             {"stop_tokens", "5"},
                                             {"min_tokens", "20"}});
  EXPECT_EQ(longer.finish, PREFIX_FINISH_STOP);
  EXPECT_EQ(std::ranges::count(longer.tokens, 5), 1);
  EXPECT_GT(longer.tokens.size(), 20u);
}

// Each of them fails alone, with what was wrong.
TEST(RequestOptions, OfTokensThatAreNotThere) {
  const Engine engine = make_engine();
  const struct {
    Settings settings;
    prefix_status status;
    const char* message;
  } kBad[] = {
      {{{"logit_bias", "5:1,131:2"}},
       PREFIX_ERR_OUT_OF_RANGE,
       "logit_bias has token 131, outside the vocabulary of 131 tokens"},
      {{{"allowed_tokens", "5,131"}},
       PREFIX_ERR_OUT_OF_RANGE,
       "allowed_tokens[1] is 131, outside the vocabulary of 131 tokens"},
      {{{"allowed_tokens", "5,7,5"}},
       PREFIX_ERR_INVALID_ARGUMENT,
       "allowed_tokens has 5 more than once"},
      {{{"min_tokens", "17"}},
       PREFIX_ERR_OUT_OF_RANGE,
       "min_tokens is 17; it must lie in [0, 16], up to max_tokens"},
      {{{"allowed_tokens", "5"}, {"stop_tokens", "5"}, {"min_tokens", "1"}},
       PREFIX_ERR_INVALID_ARGUMENT,
       "nothing may come as token 1 of the generation: allowed_tokens, min_tokens and the "
       "constraint, those of them that are set, forbid all"},
  };
  const Batch batch = make_batch(engine);
  for (const auto& bad : kBad)
    for (const char* temperature : {"0", "1"}) {
      const Options options = make_options(bad.settings);
      expect(PREFIX_OK, [&](prefix_error* e) {
        return prefix_options_set(options, "temperature", PREFIX_NUL, temperature, PREFIX_NUL, e);
      });
      add_generate(batch, kPrompt, options);
    }
  add_generate(batch, kPrompt, make_options({}));
  const Job job = run(engine, batch);
  size_t index = 0;
  for (const auto& bad : kBad)
    for (int i = 0; i < 2; ++i, ++index) {
      EXPECT_EQ(info_of(job, index).status, bad.status);
      EXPECT_EQ(message_of(job, index), bad.message);
      expect_no_arrays(job, index, bad.status);
    }
  EXPECT_EQ(info_of(job, index).status, PREFIX_OK) << message_of(job, index);
}

// Without a seed each request draws for itself, and its result tells how to draw that again.
TEST(RequestOptions, ASeedOfItsOwnForEachRequest) {
  const Engine engine = make_engine();
  const Options hot =
      make_options({{"max_tokens", "40"}, {"ignore_eos", "true"}, {"temperature", "1000"}});
  const Batch batch = make_batch(engine);
  for (int i = 0; i < 8; ++i) add_generate(batch, {1, 2, 3}, hot);
  const auto tokens_of = [](const prefix_job* job, size_t i) {
    Tokens tokens(40);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_job_result_tokens(job, i, tokens.data(), tokens.size(), nullptr, e);
    });
    return tokens;
  };
  const Job job = run(engine, batch);
  std::set<Tokens> drawn;
  std::set<int64_t> seeds;
  for (size_t i = 0; i < 8; ++i) {
    drawn.insert(tokens_of(job, i));
    seeds.insert(info_of(job, i).seed);
  }
  EXPECT_EQ(drawn.size(), 8u);
  EXPECT_EQ(seeds.size(), 8u);
  EXPECT_GE(*seeds.begin(), 0);
  EXPECT_LT(*seeds.rbegin(), int64_t{1} << 53);
  const Job second = run(engine, batch);  // the same batch once more
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(drawn.insert(tokens_of(second, i)).second) << i;
    EXPECT_TRUE(seeds.insert(info_of(second, i).seed).second) << i;
  }
  const std::string seed = std::to_string(info_of(job, 5).seed);
  const Options same = make_options({{"max_tokens", "40"},
                                     {"ignore_eos", "true"},
                                     {"temperature", "1000"},
                                     {"seed", seed.c_str()}});
  const Batch again = make_batch(engine);
  add_generate(again, {1, 2, 3}, same);
  EXPECT_EQ(tokens_of(run(engine, again), 0), tokens_of(job, 5));
}

TEST(RequestOptions, AreThoseOfTheMomentWhenTheyWereGiven) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  {
    const Options options = make_options({{"max_tokens", "3"}, {"ignore_eos", "true"}});
    add_generate(batch, {1, 2, 3}, options);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_options_set_int(options, "max_tokens", PREFIX_NUL, 5, e);
    });
    add_generate(batch, {1, 2, 3}, options);
  }
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).generated_tokens, 3);
  EXPECT_EQ(info_of(job, 1).generated_tokens, 5);
}

TEST(RequestOptions, OfTheEnd) {
  const Engine engine = make_engine();
  const Generated free = generate(engine, {{"max_tokens", "12"}, {"ignore_eos", "true"}});
  EXPECT_EQ(free.tokens.size(), 12u);
  EXPECT_EQ(free.finish, PREFIX_FINISH_LENGTH);
  EXPECT_TRUE(free.logprobs.empty());
  const std::string fourth = std::to_string(free.tokens[3]);
  const Generated stopped = generate(engine, {{"max_tokens", "12"},
                                              {"ignore_eos", "true"},
                                              {"stop_tokens", fourth.c_str()},
                                              {"logprobs", "true"}});
  EXPECT_EQ(stopped.finish, PREFIX_FINISH_STOP);
  const auto first = std::find(free.tokens.begin(), free.tokens.end(), free.tokens[3]);
  EXPECT_EQ(stopped.tokens, Tokens(free.tokens.begin(), first + 1));
  EXPECT_EQ(stopped.logprobs.size(), stopped.tokens.size());
  for (const float logprob : stopped.logprobs) EXPECT_LT(logprob, 0);
}

// The random model with tokens that end a text, as config.json has them.
Engine ending_engine(const std::string& end_tokens) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::write_checkpoint(folder.path(), {});
  std::stringstream text;
  text << std::ifstream(folder / "config.json").rdbuf();
  std::string config = text.str();
  const std::string none = "\"eos_token_id\": null";
  EXPECT_NE(config.find(none), std::string::npos);
  config.replace(config.find(none), none.size(), "\"eos_token_id\": " + end_tokens);
  folder.write("config.json", std::string_view(config));
  const Options options = make_options({{"cache_bytes", "16M"}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(folder.path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

TEST(RequestOptions, TheEndTokensAreThoseOfTheFiles) {
  for (const auto& [text, wanted] : std::initializer_list<std::pair<const char*, Tokens>>{
           {"null", {}}, {"7", {7}}, {"[9, 130]", {9, 130}}}) {
    const Engine engine = ending_engine(text);
    size_t needed = 12345;
    Tokens ids(3, -1);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_end_tokens(engine, ids.data(), ids.size(), &needed, e);
    });
    ids.resize(needed);
    EXPECT_EQ(ids, wanted);
    if (wanted.size() < 2) continue;
    expect(PREFIX_ERR_BUFFER_TOO_SMALL,
           [&](prefix_error* e) {
             return prefix_engine_end_tokens(engine, ids.data(), 1, &needed, e);
           },
           {"out", "1", "2"});
  }
}

// By a token that is drawn as often as any other.
TEST(RequestOptions, OfTheEndOfAText) {
  const Engine engine = ending_engine("7");
  const Generated late = generate(
      engine,
      {{"max_tokens", "3000"}, {"temperature", "1000"}, {"seed", "3"}, {"min_tokens", "1500"}});
  EXPECT_EQ(late.finish, PREFIX_FINISH_STOP);
  EXPECT_EQ(std::ranges::count(late.tokens, 7), 1);
  EXPECT_GT(late.tokens.size(), 1500u);
  const Generated drawn =
      generate(engine, {{"max_tokens", "3000"}, {"temperature", "1000"}, {"seed", "3"}});
  EXPECT_EQ(drawn.finish, PREFIX_FINISH_STOP);
  EXPECT_EQ(drawn.tokens.back(), 7);
  const Generated all = generate(
      engine,
      {{"max_tokens", "3000"}, {"temperature", "1000"}, {"seed", "3"}, {"ignore_eos", "true"}});
  EXPECT_EQ(all.finish, PREFIX_FINISH_LENGTH);
  EXPECT_EQ(all.tokens.size(), 3000u);
}

TEST(RequestOptions, OfEmbeddings) {
  const Engine engine = make_engine();
  const auto embed = [&](Settings settings) {
    const Options options = make_options(settings);
    const Batch batch = make_batch(engine);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_embedding(batch, kPrompt.data(), kPrompt.size(), options, 0, nullptr,
                                        e);
    });
    return values_of(run(engine, batch), 0);
  };
  const auto length = [](const std::vector<float>& v) {
    double squares = 0;
    for (const float x : v) squares += static_cast<double>(x) * x;
    return std::sqrt(squares);
  };
  EXPECT_EQ(embed({}).size(), 64u);
  EXPECT_NEAR(length(embed({})), 1, 1e-5);
  EXPECT_EQ(embed({{"dimensions", "8"}}).size(), 8u);
  EXPECT_NEAR(length(embed({{"dimensions", "8"}})), 1, 1e-5);
  EXPECT_GT(std::abs(length(embed({{"normalize", "false"}})) - 1), 0.1);
}

// Nothing else happens to the tokens that are looked for.
int64_t cached(prefix_engine* engine, const Tokens& tokens, int32_t ns = 0) {
  prefix_cache_info info{};
  info.struct_size = sizeof(info);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup(engine, ns, tokens.data(), tokens.size(), &info, e);
  });
  return info.cached_tokens;
}

Tokens text(int32_t number) {
  Tokens tokens(64, 3);
  tokens[0] = number;
  return tokens;
}

void run_one(prefix_engine* engine, const Tokens& tokens, const prefix_options* options = nullptr) {
  const Batch batch = make_batch(engine);
  add_logits(batch, tokens, {0}, options);
  run(engine, batch);
}

TEST(RequestOptions, OfTheCache) {
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, nullptr, &memory, e);
  });
  const std::string bytes = std::to_string(memory.kv_bytes_per_token * 32 * 8);
  const Engine engine = make_engine({{"cache_bytes", bytes.c_str()}, {"cache_policy", "priority"}});
  run_one(engine, text(1), make_options({{"cache_priority", "5"}}));
  for (int32_t i = 2; i < 20; ++i) run_one(engine, text(i));
  EXPECT_EQ(cached(engine, text(1)), 64) << "cache_priority";
  EXPECT_EQ(cached(engine, text(2)), 0);

  run_one(engine, text(30), make_options({{"cache_ttl_ms", "1"}}));
  // An end in case it never comes.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cached(engine, text(30)) > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(cached(engine, text(30)), 0) << "cache_ttl_ms";
  EXPECT_EQ(cached(engine, text(1)), 64);

  int32_t ns = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_open(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  run_one(engine, text(40), make_options({{"namespace_id", std::to_string(ns).c_str()}}));
  run_one(engine, text(41), make_options({{"namespace", "tenant"}}));
  for (const int32_t number : {40, 41}) {
    EXPECT_EQ(cached(engine, text(number), ns), 64);
    EXPECT_EQ(cached(engine, text(number)), 0);
  }
}

TEST(RequestOptions, OfTheQueue) {
  const Engine engine = make_engine({{"rows", "8"}});
  const Options urgent = make_options({{"priority", "5"}});
  const Batch batch = make_batch(engine);
  for (int32_t i = 0; i < 20; ++i)
    add_logits(batch, text(i), {0}, i == 19 ? static_cast<const prefix_options*>(urgent) : nullptr);
  const Job job = run(engine, batch);
  for (size_t i = 0; i < 19; ++i)
    EXPECT_LE(info_of(job, 19).total_us, info_of(job, i).total_us) << i;
}

}  // namespace
}  // namespace prefix_abi
