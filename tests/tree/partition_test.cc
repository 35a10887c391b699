// Parts of a batch: that each prompt is in one, what they compute, that no better cuts exist,
// and what a heavy prefix does.
#include "tree/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace prefix {
namespace {

using Prompt = std::vector<int32_t>;

std::vector<std::span<const int32_t>> spans(const std::vector<Prompt>& prompts) {
  return {prompts.begin(), prompts.end()};
}

int64_t largest(const Partition& p) { return *std::max_element(p.work.begin(), p.work.end()); }
int64_t computed(const Partition& p) {
  return std::accumulate(p.work.begin(), p.work.end(), int64_t{0});
}

// The parts as their numbers say, computed one by one.
Partition checked(const std::vector<Prompt>& prompts, int32_t parts, double balance) {
  Partition found = partition(spans(prompts), parts, balance);
  EXPECT_EQ(found.part.size(), prompts.size());
  EXPECT_EQ(found.work.size(), static_cast<size_t>(parts));
  std::vector<std::vector<std::span<const int32_t>>> inside(static_cast<size_t>(parts));
  for (size_t i = 0; i < prompts.size(); ++i)
    inside[static_cast<size_t>(found.part[i])].push_back(prompts[i]);
  for (size_t p = 0; p < inside.size(); ++p)
    EXPECT_EQ(found.work[p], estimate_batch(inside[p]).computed) << "part " << p;
  const BatchEstimate whole = estimate_batch(spans(prompts));
  EXPECT_EQ(found.distinct, whole.computed);
  EXPECT_EQ(found.given, whole.given);
  std::vector<int64_t> order = found.order;
  const auto part_of = [&](int64_t i) { return found.part[static_cast<size_t>(i)]; };
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(),
                             [&](int64_t a, int64_t b) { return part_of(a) < part_of(b); }));
  EXPECT_EQ(order, sort_prompts(spans(prompts)).order);
  return found;
}

std::vector<Prompt> random_tree(std::mt19937& random, size_t count, unsigned letters, size_t more) {
  std::vector<Prompt> prompts(count);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0 && random() % 3 != 0) {
      prompts[i] = prompts[random() % i];
      prompts[i].resize(random() % (prompts[i].size() + 1));
    }
    for (size_t n = random() % (more + 1); n > 0; --n)
      prompts[i].push_back(static_cast<int32_t>(random() % letters));
  }
  return prompts;
}

// Every way to cut the order, with its largest part and what is computed.
void each_way(const std::vector<Prompt>& prompts, int32_t parts,
              const std::function<void(int64_t, int64_t)>& take) {
  const SortedPrompts sorted = sort_prompts(spans(prompts));
  const size_t n = prompts.size();
  const std::function<void(size_t, int32_t, int64_t, int64_t)> cut =
      [&](size_t at, int32_t left, int64_t most, int64_t sum) {
        if (at == n) return take(most, sum);
        if (left == 0) return;
        int64_t work = sorted.shared[at];
        for (size_t end = at + 1; end <= n; ++end) {
          const auto length = prompts[static_cast<size_t>(sorted.order[end - 1])].size();
          work += static_cast<int64_t>(length) - sorted.shared[end - 1];
          cut(end, left - 1, std::max(most, work), sum + work);
        }
      };
  cut(0, parts, 0, 0);
}

TEST(Partition, Cases) {
  EXPECT_EQ(checked({}, 3, 1.05).work, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(checked({{}, {}}, 2, 1.05).distinct, 0) << "empty prompts";
  EXPECT_EQ(computed(checked({{1, 2}, {3, 4}}, 5, 1.05)), 4) << "more parts than prompts";
  EXPECT_EQ(largest(checked({{1, 2}, {3, 4}}, 5, 1.05)), 2);
  EXPECT_EQ(checked({{1, 2}, {3, 4}, {1, 5}}, 1, 1).part, (std::vector<int32_t>{0, 0, 0}));
  const Partition two = checked({{1, 2, 3}, {7, 8, 9}, {1, 2, 4}, {7, 8, 6}}, 2, 1.05);
  EXPECT_EQ(two.part, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(two.work, (std::vector<int64_t>{4, 4}));
}

// Of all cuts within the bound none computes less, and none that computes as little is more even
// than the search for it can tell.
TEST(Partition, NoBetterCutsExist) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    const std::vector<Prompt> prompts = random_tree(random, 1 + random() % 9, 3, 8);
    const auto parts = static_cast<int32_t>(1 + random() % 4);
    const double balance = round % 2 == 0 ? 1.05 : 1.4;
    const Partition found = checked(prompts, parts, balance);
    int64_t least = INT64_MAX, fewest = INT64_MAX, evenest = INT64_MAX;
    each_way(prompts, parts, [&](int64_t most, int64_t) { least = std::min(least, most); });
    const auto fair = static_cast<int64_t>(balance * (static_cast<double>(found.distinct) / parts));
    const int64_t limit =
        least <= fair ? fair : static_cast<int64_t>(balance * static_cast<double>(least));
    EXPECT_LE(largest(found), limit);
    each_way(prompts, parts, [&](int64_t most, int64_t sum) {
      if (most <= limit) fewest = std::min(fewest, sum);
    });
    EXPECT_EQ(computed(found), fewest);
    each_way(prompts, parts, [&](int64_t most, int64_t sum) {
      if (sum == fewest) evenest = std::min(evenest, most);
    });
    EXPECT_EQ(largest(found), evenest);
  }
}

TEST(Partition, ManyParts) {
  std::mt19937 random(4);
  const std::vector<Prompt> prompts = random_tree(random, 3000, 50, 30);
  for (const int32_t parts : {63, 64, 65, 200, 1000, 5000}) {
    const Partition found = checked(prompts, parts, 1.05);
    const double mean = static_cast<double>(found.distinct) / parts;
    if (parts <= 65) {  // beyond, prompts alone are longer
      EXPECT_LE(static_cast<double>(largest(found)), 1.05 * mean) << parts;
    }
  }
}

// A long document with short questions is not computed by every worker to save a few tokens each; a
// short one with many is.
TEST(Partition, HeavyPrefixes) {
  const auto questions = [](size_t document, int32_t count, size_t own) {
    std::vector<Prompt> prompts;
    for (int32_t i = 0; i < count; ++i) {
      prompts.emplace_back(document, 1);
      prompts.back().insert(prompts.back().end(), own, 10 + i);
    }
    return prompts;
  };
  const Partition whole = checked(questions(10000, 16, 5), 8, 1.05);
  EXPECT_EQ(computed(whole), 10080);
  const Partition split = checked(questions(100, 80, 100), 8, 1.05);
  EXPECT_EQ(computed(split), 80 * 100 + 8 * 100);
  EXPECT_EQ(largest(split), 1100);
}

// Questions about documents of many sizes, as in docs/ordering.md.
TEST(Partition, FewDuplicatesAndEvenParts) {
  std::mt19937 random(8);
  std::vector<Prompt> prompts;
  for (int32_t document = 0; document < 300; ++document) {
    const size_t length = 200 + random() % 1800, count = 1 + random() % 12;
    for (size_t q = 0; q < count; ++q) {
      prompts.emplace_back(20, 1);
      prompts.back().insert(prompts.back().end(), length, 100 + document);
      for (size_t n = 10 + random() % 40; n > 0; --n)
        prompts.back().push_back(static_cast<int32_t>(random() % 90));
    }
  }
  std::shuffle(prompts.begin(), prompts.end(), random);
  const Partition found = checked(prompts, 16, 1.05);
  const auto all = static_cast<double>(computed(found));
  EXPECT_LE(all, 1.03 * static_cast<double>(found.distinct));
  EXPECT_LE(static_cast<double>(largest(found)), 1.05 * all / 16);
}

}  // namespace
}  // namespace prefix
