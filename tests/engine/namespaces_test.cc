// Namespaces of several parts: two that differ in a joint only share neither a number nor a key.
#include "cache/namespaces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_key.h"
#include "snapshot_support.h"

namespace prefix {
namespace {

using namespace testing_support;

// The text cut at the places whose bits are set.
NamespaceParts cut(std::string_view text, uint32_t places) {
  NamespaceParts parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    parts.back() += text[i];
    if (places >> i & 1) parts.emplace_back();
  }
  return parts;
}

// Two texts in every way to cut them: whoever joins the parts, however he separates them, has them
// all the same.
TEST(NamespacesTest, AMillionTuplesOfTheSameLettersShareNothing) {
  const size_t length = quick() ? 16 : 19;
  Namespaces namespaces;
  std::vector<PageKey> keys;
  std::vector<NamespaceParts> all;
  for (const char letter : {'a', '\0'}) {
    const std::string text(length, letter);
    for (uint32_t places = 0; places < 1u << length; ++places) all.push_back(cut(text, places));
  }
  for (const NamespaceParts& parts : all) {
    ASSERT_EQ(namespaces.open(parts), static_cast<int32_t>(keys.size()) + 1);
    const std::vector<std::string_view> views(parts.begin(), parts.end());
    keys.push_back(root_key({}, views));
  }
  for (size_t i = 0; i < all.size(); i += 97) {
    ASSERT_EQ(namespaces.open(all[i]), static_cast<int32_t>(i) + 1);
    ASSERT_EQ(namespaces.find(all[i]), static_cast<int32_t>(i) + 1);
    ASSERT_EQ(namespaces.parts(static_cast<int32_t>(i) + 1), all[i]);
  }
  EXPECT_EQ(namespaces.count(), static_cast<int32_t>(all.size()) + 1);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(keys.size(), size_t{2} << length);
}

TEST(NamespacesTest, ThePlainNameIsTheTupleOfOnePart) {
  Namespaces namespaces;
  EXPECT_EQ(namespaces.open(namespace_parts("")), 0);
  EXPECT_EQ(namespaces.open({}), 0);
  EXPECT_EQ(namespaces.open(namespace_parts("a")), namespaces.open({"a"}));
  EXPECT_EQ(namespaces.find({"never"}), -1);
  EXPECT_FALSE(namespaces.has(-1));
  EXPECT_FALSE(namespaces.has(namespaces.count()));
}

TEST(NamespacesTest, TuplesKeepPrefixesApart) {
  const auto engine = open_engine(100);
  std::mt19937 random(1);
  const std::vector<int32_t> prompt = random_tokens(random, 80, kVocab);
  std::vector<NamespaceParts> tuples = {{"ab", "c"}, {"a", "bc"},     {"abc"},        {"abc", ""},
                                        {"", "abc"}, {"a", "b", "c"}, {"ab", "c", ""}};
  std::vector<int32_t> numbers;
  for (const NamespaceParts& parts : tuples) {
    numbers.push_back(engine->open_namespace(parts));
    for (const int32_t other : numbers)
      EXPECT_EQ(look_up(*engine, prompt, other).cached_tokens, other == numbers.back() ? 0 : 80);
    run_all(*engine, {logits_of(prompt, numbers.back())});
  }
  EXPECT_EQ(engine->stats().tokens_computed, 80 * static_cast<int64_t>(tuples.size()));
}

TEST(NamespacesTest, WhereASaltIsRequiredRequestsWithoutAreRefused) {
  const auto engine = open_engine(100, {{"require_salt", "true"}});
  const std::vector<int32_t> prompt = {1, 2, 3};
  std::vector<RequestSpec> batch;
  for (const NamespaceParts& parts :
       std::vector<NamespaceParts>{{}, {""}, {"", "adapter"}, {"salt"}, {"salt", ""}, {" "}})
    batch.push_back(logits_of(prompt, engine->open_namespace(parts)));
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(job->result(i).status, i < 3 ? Code::kInvalidArgument : Code::kOk) << i;
    EXPECT_EQ(job->result(i).message.find("require_salt") != std::string::npos, i < 3);
  }
  const auto named = engine->submit({logits_of(prompt), logits_of(prompt)}, {"", "tenant"});
  named->wait(-1);
  EXPECT_EQ(named->result(0).status, Code::kInvalidArgument);
  EXPECT_EQ(named->result(1).status, Code::kOk);
  EXPECT_EQ(engine->stats().tokens_given, 4 * 3);
}

}  // namespace
}  // namespace prefix
