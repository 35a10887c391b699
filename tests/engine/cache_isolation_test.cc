// Namespaces never share a token, and looking into the cache leaves it as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "engine/engine_support.h"
#include "engine/random_requests.h"

namespace prefix {
namespace {

using namespace testing_support;

// Names that an encoding could confuse: parts shifted, zero bytes, one longer than the other.
std::vector<std::string> confusing_names() {
  using namespace std::string_literals;
  std::vector<std::string> names{
      ""s,   "a"s,    "b"s,        "c"s,      "ab"s,    "bc"s,     "abc"s,      "a\0"s,   "\0a"s,
      "\0"s, "\0\0"s, "a\0b"s,     "a\0\0b"s, "ab\0"s,  "\0ab"s,   "a\0bc"s,    "ab\0c"s, "a/b"s,
      "a/"s, "/b"s,   "a b"s,      " a"s,     "a "s,    "A"s,      "0"s,        "1"s,     "00"s,
      "-1"s, "\xff"s, "\xc3\xa4"s, "a\n"s,    "a\r\n"s, "4:abcd"s, "1:a3:bcd"s, "a\0c"s,  "[a]"s};
  const std::string very_long(1 << 20, 'x');
  names.push_back(very_long);
  names.push_back(very_long + 'x');
  names.push_back(very_long + '\0');
  names.push_back(very_long.substr(1) + 'y');
  names.push_back('y' + very_long.substr(1));
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  for (size_t n = 4; n <= alphabet.size(); ++n) names.push_back(alphabet.substr(0, n));
  return names;
}

// Namespace i holds prompts that begin with token i, which no other one has. A name's last bytes
// and a prompt's first tokens make the same bytes as another pair: ("ab", "c...") and ("a",
// "bc...").
TEST(Cache, NamespacesNeverMeet) {
  const auto engine = make_engine(tiny_checkpoint());
  const std::vector<std::string> names = confusing_names();
  ASSERT_LT(names.size(), static_cast<size_t>(kVocab));
  std::mt19937 random(41);
  std::vector<int32_t> ids;
  std::vector<std::vector<std::vector<int32_t>>> prompts(names.size());
  for (const std::string& name : names) ids.push_back(engine->open_namespace(name));
  ASSERT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(engine->find_namespace(names[i]), ids[i]);
    const bool part = i > 0 && names[i].size() < 26 &&
                      std::string_view("abcdefghijklmnopqrstuvwxyz").starts_with(names[i]);
    const auto first = static_cast<int32_t>(i);
    for (int k = 0; k < 4; ++k) {
      // 97 is 'a': namespace "abc" has the prompt "defgh...", as far as the letters reach.
      std::vector<int32_t> tokens{first};
      if (k == 0 && part) {
        tokens.clear();
        for (int32_t letter = 97 + static_cast<int32_t>(names[i].size()); letter < 97 + 26;
             ++letter)
          tokens.push_back(letter);
      }
      for (const int32_t t : random_tokens(random, 5 + random() % 60, kVocab)) tokens.push_back(t);
      prompts[i].push_back(std::move(tokens));
    }
  }
  ASSERT_LT(names.size(), 97u) << "first tokens and letters must differ";
  std::vector<RequestSpec> batch;
  std::vector<std::string> by_name;
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::vector<int32_t>& tokens : prompts[i]) {
      batch.push_back(logits_of(tokens, i % 2 ? ids[i] : 0));
      by_name.push_back(i % 2 ? "" : names[i]);
    }
  const auto job = engine->submit(batch, by_name);
  job->wait(-1);
  ASSERT_EQ(job->totals().failed, 0);

  int64_t hits = 0;
  for (int i = 0; i < cases(1000000); ++i) {
    const size_t owner = random() % names.size();
    const size_t other = (owner + 1 + random() % (names.size() - 1)) % names.size();
    const CacheInfo found = look_up(*engine, prompts[owner][random() % 4], ids[other]);
    hits += found.cached_tokens + found.pending_tokens;
  }
  EXPECT_EQ(hits, 0);
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::vector<int32_t>& tokens : prompts[i])
      EXPECT_EQ(look_up(*engine, tokens, ids[i]).cached_tokens,
                static_cast<int64_t>(tokens.size()));

  // Nor do requests meet: the same tokens are computed anew, with the same result.
  for (int i = 0; i < cases(300); ++i) {
    const size_t owner = random() % names.size();
    const size_t other = (owner + 1 + random() % (names.size() - 1)) % names.size();
    const auto own = run_all(*engine, {logits_of(prompts[owner][1], ids[owner])});
    const auto foreign = run_all(*engine, {logits_of(prompts[owner][1], ids[other])});
    const auto n = static_cast<int64_t>(prompts[owner][1].size());
    ASSERT_EQ(own->result(0).usage.cached, n - 1);
    ASSERT_EQ(foreign->result(0).usage.cached, 0);
    ASSERT_EQ(foreign->result(0).usage.computed, n);
    ASSERT_TRUE(same_bits(own->result(0), foreign->result(0)));
    ASSERT_EQ(engine->drop_namespace(ids[other]) > 0, true);
    std::vector<RequestSpec> again;
    for (const std::vector<int32_t>& tokens : prompts[other])
      again.push_back(logits_of(tokens, ids[other]));
    run_all(*engine, again);
  }
}

// --- looking changes nothing ---------------------------------------------------------------------

// Two engines with the same past; only one is looked into.
TEST(Cache, AMillionLookupsLeaveTheOrderOfEviction) {
  const auto watched = make_engine(tiny_checkpoint());
  const auto unseen = make_engine(tiny_checkpoint());
  std::mt19937 random(43);
  constexpr size_t kPrompts = 60;
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < kPrompts; ++i) {
    prompts.push_back(random_tokens(random, 3 + random() % 120, kVocab));
    prompts.back()[0] = static_cast<int32_t>(i);  // a path of its own
  }
  std::vector<size_t> order(kPrompts);  // of last use
  for (size_t i = 0; i < kPrompts; ++i) order[i] = i;
  for (const size_t i : order)
    for (Engine* engine : {watched.get(), unseen.get()}) run_all(*engine, {logits_of(prompts[i])});
  for (int i = 0; i < 100; ++i) {
    const size_t at = random() % kPrompts;
    const size_t used = order[at];
    order.erase(order.begin() + static_cast<ptrdiff_t>(at));
    order.push_back(used);
    for (Engine* engine : {watched.get(), unseen.get()})
      run_all(*engine, {logits_of(prompts[used])});
  }

  const std::string before = watched->tree_json();
  ASSERT_EQ(before, unseen->tree_json());
  for (int i = 0; i < cases(1000000); ++i) {
    // Mostly what would go first, whole, in part, or with a strange end.
    const std::vector<int32_t>& tokens = prompts[order[random() % (random() % kPrompts + 1)]];
    const size_t n = 1 + random() % tokens.size();
    ASSERT_EQ(watched->cache_lookup(0, tokens.data(), n).cached_tokens, static_cast<int64_t>(n));
    if (i % 10 == 0) {
      const std::vector<int32_t> other = random_tokens(random, 40, kVocab);
      ASSERT_LT(look_up(*watched, other).cached_tokens, 40);
    }
  }
  ASSERT_EQ(before, watched->tree_json());

  // Page by page: the least recently used prompt loses its last page, until it is gone.
  const int64_t page = 32 * watched->info().kv_bytes_per_token;
  for (const size_t i : order) {
    for (auto left = static_cast<int64_t>(prompts[i].size()); left > 0;) {
      const int64_t target = watched->stats().kv_bytes - page;
      const int64_t freed = left % 32 == 0 ? 32 : left % 32;
      ASSERT_EQ(watched->cache_trim(target), freed);
      ASSERT_EQ(unseen->cache_trim(target), freed);
      left -= freed;
      ASSERT_EQ(look_up(*watched, prompts[i]).cached_tokens, left) << "prompt " << i;
      ASSERT_EQ(watched->tree_json(), unseen->tree_json());
    }
  }
  EXPECT_EQ(watched->stats().pages_used, 0);
}

}  // namespace
}  // namespace prefix
