// Which continuation of a prefix is likeliest: likely MODEL PREFIX CONTINUATION...
//
// Token ids only, as 1,5,9; the prefix is computed once. The interface is prefix.hpp.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <prefix.hpp>

#include "token_list.h"

int main(int argc, char** argv) try {
  constexpr const char* kUsage = "usage: likely MODEL PREFIX CONTINUATION...\n";
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
  if (argc < 4) return std::fprintf(stderr, "likely: too few arguments; %s", kUsage), 2;
  const std::vector<prefix_token> stem = token_list(argv[2]);
  std::vector<std::vector<prefix_token>> continuations;
  for (int i = 3; i < argc; ++i) continuations.push_back(token_list(argv[i]));

  const prefix::Engine engine(argv[1]);
  prefix::Batch batch(engine);
  batch.add_continuations(stem, continuations);
  const prefix::Job job = engine.run(batch);
  const prefix::Values values = job.all_values();

  std::vector<std::pair<double, size_t>> ranked;
  for (size_t i = 0; i < values.size(); ++i)
    ranked.emplace_back(std::accumulate(values[i].begin(), values[i].end(), 0.0), i);
  // A request that failed has NaN for values, which has no place in an order.
  std::erase_if(ranked, [](const auto& entry) { return std::isnan(entry.first); });
  std::sort(ranked.rbegin(), ranked.rend());
  for (const auto& [sum, i] : ranked) std::printf("%12.4f  %s\n", sum, argv[i + 3]);

  const auto failure = job.first_failure();
  if (failure) std::fprintf(stderr, "likely: %s\n", failure->error.message);
  return failure ? 1 : 0;
} catch (const prefix::Error& e) {
  std::fprintf(stderr, "likely: %s (%s)\n", e.what(), e.name());
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "likely: %s\n", e.what());
  return 2;
}
