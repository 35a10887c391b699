// The likeliest tokens of a result, through the C interface.
#include "abi_support.h"

namespace prefix_abi {
namespace {

struct Top {
  Tokens tokens;
  std::vector<float> logprobs;
  bool operator==(const Top&) const = default;
};

Top top_of(const prefix_job* job, size_t index) {
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_top(job, index, nullptr, 0, &needed, nullptr, 0, e);
  });
  Top top{Tokens(needed), std::vector<float>(needed)};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_top(job, index, top.tokens.data(), needed, nullptr,
                                 top.logprobs.data(), needed, e);
  });
  return top;
}

// k of one place.
Top place_of(const prefix_job* job, size_t index, size_t place, size_t k) {
  Top top{Tokens(k), std::vector<float>(k)};
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_partial_top(job, index, place, top.tokens.data(), k, &needed,
                                  top.logprobs.data(), k, e);
  });
  EXPECT_EQ(needed, k);
  return top;
}

Top joined(Top all, const Top& more) {
  all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
  all.logprobs.insert(all.logprobs.end(), more.logprobs.begin(), more.logprobs.end());
  return all;
}

class TopLogprobs : public testing::Test {
 protected:
  void add_scores(const Tokens& tokens, const prefix_options* options) {
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_logprobs(batch, tokens.data(), tokens.size(), 1, options, 0, nullptr,
                                       e);
    });
  }

  Engine engine = make_engine();
  Options two = make_options({{"top_logprobs", "2"}});
  Options generation =
      make_options({{"top_logprobs", "2"}, {"max_tokens", "3"}, {"ignore_eos", "true"}});
  Batch batch = make_batch(engine);
};

TEST_F(TopLogprobs, OfGenerationsScoresAndContinuations) {
  add_generate(batch, {1, 2, 3}, generation);
  Tokens text = {1, 2, 3, 4, 5};
  add_scores(text, two);
  const Tokens more = {4, 5, 9};
  const int64_t offsets[] = {0, 2, 3};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_continuations(batch, text.data(), 3, more.data(), 3, offsets, 3, two, 0,
                                          nullptr, e);
  });
  add_logits(batch, {1, 2, 3});
  const Job job = run(engine, batch);
  const size_t sizes[] = {6, 8, 4, 2, 0};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(top_of(job, i).tokens.size(), sizes[i]) << i;
  const Top scored = top_of(job, 1), continued = top_of(job, 2);
  EXPECT_EQ(Tokens(scored.tokens.begin() + 4, scored.tokens.end()), continued.tokens);
  EXPECT_EQ(top_of(job, 0).tokens[0], continued.tokens[0]);
  for (const Top& top : {top_of(job, 0), scored})
    for (size_t i = 0; i < top.logprobs.size(); i += 2)
      EXPECT_GE(top.logprobs[i], top.logprobs[i + 1]);
}

TEST_F(TopLogprobs, TwoArraysComeWholeOrNotAtAll) {
  add_generate(batch, {1, 2, 3}, generation);
  const Job job = run(engine, batch);
  const Top whole = top_of(job, 0);
  EXPECT_EQ(joined(joined(place_of(job, 0, 0, 2), place_of(job, 0, 1, 2)), place_of(job, 0, 2, 2)),
            whole);
  const auto check = [&](size_t size, const auto& call) {
    for (size_t room = 0; room <= size + 1; ++room)
      for (size_t other = 0; other <= size + 1; ++other) {
        Tokens tokens(size + 1, -7);
        std::vector<float> logprobs(size + 1, -7);
        size_t needed = 99;
        const bool fits = (room == 0 || room >= size) && (other == 0 || other >= size);
        expect(fits ? PREFIX_OK : PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
          return call(tokens.data(), room, &needed, logprobs.data(), other, e);
        });
        EXPECT_EQ(needed, size);
        EXPECT_EQ(tokens[0] != -7, fits && room > 0);
        EXPECT_EQ(logprobs[0] != -7, fits && other > 0);
        EXPECT_EQ(tokens[size], -7);
        EXPECT_EQ(logprobs[size], -7);
      }
    size_t needed = 99;
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) { return call(nullptr, 9, &needed, nullptr, 0, e); },
           {"tokens is NULL"});
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) { return call(nullptr, 0, &needed, nullptr, 9, e); },
           {"logprobs is NULL"});
    EXPECT_EQ(needed, 99u);
  };
  check(6, [&](auto... rest) { return prefix_job_result_top(job, 0, rest...); });
  check(2, [&](auto... rest) { return prefix_job_partial_top(job, 0, 1, rest...); });
}

TEST_F(TopLogprobs, OfWhatIsNotThereIsAMistake) {
  add_generate(batch, {1, 2, 3}, generation);
  add_generate(batch, {1, 2, 3}, make_options({{"max_tokens", "2"}}));
  add_scores({1, 2, 3}, two);
  add_generate(batch, {999}, generation);
  const Job job = run(engine, batch);
  size_t needed = 99;
  const auto result = [&](size_t i) {
    return [&needed, &job, i](prefix_error* e) {
      return prefix_job_result_top(job, i, nullptr, 0, &needed, nullptr, 0, e);
    };
  };
  const auto partial = [&](size_t i, size_t place) {
    return [&needed, &job, i, place](prefix_error* e) {
      return prefix_job_partial_top(job, i, place, nullptr, 0, &needed, nullptr, 0, e);
    };
  };
  expect(PREFIX_ERR_OUT_OF_RANGE, partial(0, 3), {"place 3", "request 0", "3"});
  expect(PREFIX_ERR_OUT_OF_RANGE, partial(0, PREFIX_NUL), {"request 0"});
  expect(PREFIX_ERR_OUT_OF_RANGE, partial(1, 0), {"place 0", "request 1", "0"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, partial(2, 0), {"request 2 does not generate"});
  expect(PREFIX_ERR_OUT_OF_RANGE, partial(3, 0), {"place 0"});
  expect(PREFIX_ERR_OUT_OF_RANGE, result(3), {"tokens[0] is 999"});
  for (const size_t beyond : {size_t{4}, PREFIX_NUL}) {
    expect(PREFIX_ERR_OUT_OF_RANGE, result(beyond), {"the job has 4"});
    expect(PREFIX_ERR_OUT_OF_RANGE, partial(beyond, 0), {"the job has 4"});
  }
  EXPECT_EQ(needed, 99u);
  EXPECT_EQ(top_of(job, 1), Top{});
}

// A server sends them with their tokens, and they stay when the generation is cancelled.
TEST_F(TopLogprobs, OfAGenerationThatRunsAndOneThatWasCancelled) {
  const Options endless = make_options({{"top_logprobs", "2"},
                                        {"max_tokens", "4000"},
                                        {"ignore_eos", "true"},
                                        {"logprobs", "true"}});
  for (int i = 0; i < 20; ++i) add_generate(batch, {1, 2, i}, endless);
  const Job job = submit(engine, batch);
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_job_result_top(job, 0, nullptr, 0, nullptr, nullptr, 0, e);
  });
  std::vector<size_t> places(20);
  Top first;
  prefix_event event = PREFIX_EVENT_INIT;
  for (int tokens = 0; tokens < 200;) {
    ASSERT_EQ(prefix_job_next_event(job, -1, &event, nullptr), PREFIX_OK);
    if (event.kind != PREFIX_EVENT_TOKEN) continue;
    const auto index = static_cast<size_t>(event.request);
    const Top top = place_of(job, index, places[index]++, 2);
    EXPECT_EQ(top.tokens[0], event.token);  // greedy
    EXPECT_EQ(top.logprobs[0], event.logprob);
    if (index == 0) first = joined(first, top);
    ++tokens;
  }
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
  expect(PREFIX_ERR_CANCELLED, [&](prefix_error* e) {
    return prefix_job_result_top(job, 0, nullptr, 0, nullptr, nullptr, 0, e);
  });
  const auto made = static_cast<size_t>(info_of(job, 0).generated_tokens);
  Top again;
  for (size_t place = 0; place < places[0]; ++place)
    again = joined(again, place_of(job, 0, place, 2));
  EXPECT_EQ(again, first);
  place_of(job, 0, made - 1, 2);
  expect(PREFIX_ERR_OUT_OF_RANGE, [&](prefix_error* e) {
    return prefix_job_partial_top(job, 0, made, nullptr, 0, nullptr, nullptr, 0, e);
  });
}

}  // namespace
}  // namespace prefix_abi
