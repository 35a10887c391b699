// The promise of invariance_test.cc for each architecture: the tiny models of the golden vectors,
// whose layers differ in more than their sizes.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/random_requests.h"
#include "engine/variants.h"
#include "support/golden.h"

namespace prefix {
namespace {

using testing_support::make_options;
using testing_support::OptionList;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, architecture] : testing_support::golden_architectures())
    if (!name.ends_with(".gguf")) names.push_back(name);
  return names;
}

// The models of an architecture share its 520 cases.
int cases_of(const std::string& model) {
  const auto& models = testing_support::golden_architectures();
  const std::string& architecture = models.at(model);
  const auto alike = static_cast<int>(std::ranges::count_if(models, [&](const auto& other) {
    return other.second == architecture && !other.first.ends_with(".gguf");
  }));
  return (testing_support::cases(520) + alike - 1) / alike;
}

class ArchitectureInvariance : public testing::TestWithParam<std::string> {};

TEST_P(ArchitectureInvariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto make = [&](const OptionList& list) {
    return Engine::create(testing_support::golden_models() + "/" + GetParam(), make_options(list),
                          nullptr);
  };
  const auto alone = testing_support::one_at_a_time(make);
  const auto variants = testing_support::usual_variants(make);
  testing_support::expect_equal_bits(*alone, variants,
                                     {cases_of(GetParam()), GetParam().size(), 40},
                                     testing_support::random_batch);
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureInvariance, testing::ValuesIn(model_names()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

}  // namespace
}  // namespace prefix
