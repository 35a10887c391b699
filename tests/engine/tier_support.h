// Engines over a folder of pages, and requests whose right results are known.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "random_requests.h"
#include "support/temp_folder.h"

namespace prefix::testing_support {

using EngineOptions = std::map<std::string, std::string>;

// With memory for `pages` pages. Steps of fewer than 32 rows do not tell what a token costs: unless
// "rows" says otherwise, pages are fetched however fast this little model is.
inline std::shared_ptr<Engine> open_over(const std::string& folder, int64_t pages = 1000,
                                         const EngineOptions& more = {},
                                         const TinyCheckpoint& checkpoint = tiny_checkpoint()) {
  Options options = make_options({{"threads", "1"}, {"rows", "31"}, {"cache_fetch_ms", "60000"}});
  for (const auto& [key, value] : more) options.set(key, value);
  const int64_t page = 32 * Engine::estimate(checkpoint.path(), options).kv_bytes_per_token;
  options.set("cache_bytes", std::to_string(pages * page));
  options.set("cache_disk", folder);
  return Engine::create(checkpoint.path(), options, nullptr);
}

// Requests and what an engine without a cache answers.
struct KnownRequests {
  KnownRequests(std::mt19937& random, size_t count, const std::string& dtype = "bf16") {
    while (requests.size() < count)
      requests.push_back(random_task(random, random_prompt(random, requests)));
    const auto cold =
        make_engine(tiny_checkpoint(),
                    {{"cache", "false"}, {"sharing", "false"}, {"threads", "1"}, {"dtype", dtype}});
    expected = run_all(*cold, requests);
  }
  // Of request i, also when it ended early: then only how is checked.
  void check(const RequestResult& result, size_t i, bool may_end_early = false) const {
    if (may_end_early && (result.status == Code::kCancelled || result.status == Code::kDeadline))
      return;
    ASSERT_EQ(result.status, Code::kOk) << result.message;
    ASSERT_TRUE(same_bits(result, expected->result(i))) << "request " << i;
    const Usage& usage = result.usage;
    ASSERT_EQ(usage.cached + usage.shared + usage.computed, usage.prompt);
    ASSERT_EQ(usage.prompt, expected->result(i).usage.prompt);
  }

  std::vector<RequestSpec> requests;
  std::shared_ptr<Job> expected;
};

}  // namespace prefix::testing_support
