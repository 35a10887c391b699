// Engines of one model that must give the same bits: how they differ, and batches through all of
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine_support.h"

namespace prefix::testing_support {

struct Variant {
  const char* name;
  std::shared_ptr<Engine> engine;
};

// make(OptionList) opens an engine.
template <typename Make>
std::shared_ptr<Engine> one_at_a_time(const Make& make) {
  return make(OptionList{{"threads", "1"}, {"cache", "false"}});
}

template <typename Make>
std::vector<Variant> usual_variants(const Make& make) {
  return {
      {"batched, 2 threads, cached", make(OptionList{{"threads", "2"}})},
      {"sharing off", make(OptionList{{"threads", "2"}, {"sharing", "false"}, {"cache", "false"}})},
      {"chunks of 7", make(OptionList{{"threads", "1"}, {"rows", "7"}})},
      {"chunks of 33, cache off",
       make(OptionList{{"threads", "2"}, {"rows", "33"}, {"cache", "false"}})},
  };
}

// The batch one request at a time in `alone`, then shuffled in each of the others.
inline void expect_equal_bits(Engine& alone, const std::vector<Variant>& variants,
                              const std::vector<RequestSpec>& batch, std::mt19937& random,
                              const std::string& where) {
  std::vector<RequestResult> expected;
  for (const RequestSpec& spec : batch) {
    expected.push_back(run_all(alone, {spec})->result(0));
    ASSERT_EQ(expected.back().status, Code::kOk) << expected.back().message;
  }
  for (const Variant& v : variants) {
    std::vector<size_t> order(batch.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<RequestSpec> shuffled;
    for (const size_t i : order) shuffled.push_back(batch[i]);
    const auto job = run_all(*v.engine, shuffled);
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(job->result(i).status, Code::kOk) << v.name << ": " << job->result(i).message;
      ASSERT_TRUE(same_bits(job->result(i), expected[order[i]]))
          << v.name << ", " << where << ", request " << order[i];
    }
    v.engine->check();
  }
}

struct Batches {
  int cases;        // requests that are compared, in all variants together
  size_t salt;      // of the random numbers
  size_t most = 8;  // requests of every eighth batch; of the others 8
};

// Batches of batch_of(random, count) through all of them.
template <typename BatchOf>
void expect_equal_bits(Engine& alone, const std::vector<Variant>& variants, const Batches& batches,
                       const BatchOf& batch_of) {
  int compared = 0;
  for (unsigned seed = 0; compared < batches.cases; ++seed) {
    std::mt19937 random(seed * 7919 + static_cast<unsigned>(batches.salt));
    const size_t count = 1 + random() % (seed % 8 == 0 ? batches.most : 8);
    expect_equal_bits(alone, variants, batch_of(random, count), random,
                      "seed " + std::to_string(seed));
    if (testing::Test::HasFatalFailure()) return;
    compared += static_cast<int>(variants.size());
  }
}

}  // namespace prefix::testing_support
