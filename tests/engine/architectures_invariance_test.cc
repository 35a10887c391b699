// The promise of invariance_test.cc for each architecture: the tiny models of the golden vectors,
// whose layers differ in more than their sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/random_requests.h"
#include "engine/variants.h"
#include "support/golden.h"

namespace prefix {
namespace {

using testing_support::make_options;
using testing_support::OptionList;

// Directories of the golden models, with their architectures.
std::map<std::string, std::string> read_models() {
  std::map<std::string, std::string> models;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing_support::golden_folder() + "/logits")) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".json") continue;
    const testing_support::Golden golden((path.parent_path() / path.stem()).string());
    const auto model = golden.index.at("path").get<std::string>();
    if (!model.ends_with(".gguf")) models[model] = golden.index.at("architecture");
  }
  return models;
}

const std::map<std::string, std::string>& golden_models_by_name() {
  static const std::map<std::string, std::string> models = read_models();
  return models;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, architecture] : golden_models_by_name()) names.push_back(name);
  return names;
}

// The models of an architecture share its 520 cases.
size_t cases_of(const std::string& model) {
  const auto& models = golden_models_by_name();
  const std::string& architecture = models.at(model);
  const auto alike = std::ranges::count_if(
      models, [&](const auto& other) { return other.second == architecture; });
  return static_cast<size_t>((testing_support::cases(520) + alike - 1) / alike);
}

class ArchitectureInvariance : public testing::TestWithParam<std::string> {};

TEST_P(ArchitectureInvariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto make = [&](const OptionList& list) {
    return Engine::create(testing_support::golden_models() + "/" + GetParam(), make_options(list),
                          nullptr);
  };
  const auto alone = testing_support::one_at_a_time(make);
  const auto variants = testing_support::usual_variants(make);
  size_t compared = 0;
  const size_t wanted = cases_of(GetParam());
  for (unsigned seed = 0; compared < wanted; ++seed, compared += variants.size()) {
    std::mt19937 random(seed * 7919 + static_cast<unsigned>(GetParam().size()));
    std::vector<RequestSpec> batch;
    const size_t count = seed % 8 == 0 ? 1 + random() % 40 : 1 + random() % 8;
    while (batch.size() < count)
      batch.push_back(
          testing_support::random_task(random, testing_support::random_prompt(random, batch)));
    testing_support::expect_equal_bits(*alone, variants, batch, random,
                                       "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureInvariance, testing::ValuesIn(model_names()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace prefix
