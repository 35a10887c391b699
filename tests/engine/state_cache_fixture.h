// Caches with states of recurrent layers: an engine of each family of hybrid models, more engines of
// the same model, with other options or hardly any memory, and what they have cached.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "recurrent_support.h"
#include "support/temp_folder.h"

namespace prefix::testing_support {

using Tokens = std::vector<int32_t>;

inline RequestSpec with_checkpoints(RequestSpec spec, Tokens positions) {
  spec.checkpoint = std::move(positions);
  return spec;
}

class StateCache : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Engine> open(OptionList list = {}) {
    Options options = make_options({{"threads", "1"}});
    for (const auto& [key, value] : list) options.set(key, value);
    return Engine::create(checkpoint.path(), options, nullptr);
  }
  // With memory for so many states and 8 pages.
  std::shared_ptr<Engine> open_small(int64_t states, const char* rows = "512") {
    const int64_t bytes = (states * state_pages() + 8) * page_bytes();
    return open({{"rows", rows}, {"cache_bytes", std::to_string(bytes)}});
  }
  int64_t page_bytes() const { return 32 * engine->info().kv_bytes_per_token; }
  int64_t state_pages() const {
    return (engine->info().state_bytes + page_bytes() - 1) / page_bytes();
  }
  Tokens text(size_t n) { return random_tokens(random, n, shape.vocab); }
  int64_t cached(Engine& e, const Tokens& tokens) { return look_up(e, tokens).cached_tokens; }
  // Without a cache.
  RequestResult cold(const RequestSpec& spec) {
    return run_all(*open({{"cache", "false"}}), {spec})->result(0);
  }
  RequestResult run(Engine& e, const RequestSpec& spec) {
    const RequestResult result = run_all(e, {spec})->result(0);
    e.check();
    return result;
  }

  const tools::CheckpointShape shape = hybrid_shape(GetParam());
  const TinyCheckpoint checkpoint{shape};
  std::shared_ptr<Engine> engine = open();
  std::mt19937 random{17};
  TempFolder folder;
  const std::string path = folder / "snapshot";
};

}  // namespace prefix::testing_support
