#include "cache/disk_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "disk_support.h"

namespace prefix {
namespace {

using testing_support::key_of;

TEST(DiskIndex, OrdersByLastUse) {
  DiskIndex index;
  index.add(key_of(1), 10, 100);
  index.add(key_of(2), 20, 50);
  index.add(key_of(3), 30, 200);
  EXPECT_EQ(index.oldest(), key_of(2));
  index.add(key_of(2), 20, 300);
  EXPECT_EQ(index.oldest(), key_of(1));
  index.add(key_of(1), 15, 99);  // an older use is no news; the size is
  EXPECT_EQ(index.last_use(key_of(1)), 100);
  EXPECT_EQ(index.bytes(), 15u + 20 + 30);
  EXPECT_TRUE(index.remove(key_of(1)));
  EXPECT_FALSE(index.remove(key_of(1)));
  EXPECT_EQ(index.oldest(), key_of(3));
  EXPECT_EQ(index.pages(), 2u);
}

TEST(DiskIndex, AComparisonForgetsWhatNobodySaw) {
  DiskIndex index;
  for (uint64_t i = 0; i < 4; ++i) index.add(key_of(i), 1, static_cast<int64_t>(i));
  index.begin_comparison();
  index.add(key_of(1), 1, 1);
  index.add(key_of(9), 1, 9);  // put by another thread meanwhile
  index.end_comparison();
  EXPECT_EQ(index.pages(), 2u);
  EXPECT_TRUE(index.contains(key_of(1)));
  EXPECT_TRUE(index.contains(key_of(9)));
}

TEST(DiskIndex, AgreesWithASimpleModel) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    DiskIndex index;
    std::map<uint64_t, std::pair<uint64_t, int64_t>> model;  // bytes, last use
    for (int step = 0; step < 2000; ++step) {
      const uint64_t n = random() % 30;
      if (random() % 3 != 0) {
        const uint64_t bytes = random() % 100;
        const auto used = static_cast<int64_t>(random() % 1000);
        index.add(key_of(n), bytes, used);
        const auto [at, fresh] = model.try_emplace(n, bytes, used);
        if (!fresh) at->second = {bytes, std::max(at->second.second, used)};
      } else {
        ASSERT_EQ(index.remove(key_of(n)), model.erase(n) == 1);
      }
      uint64_t bytes = 0;
      int64_t oldest = INT64_MAX;
      for (const auto& [number, entry] : model) {
        bytes += entry.first;
        oldest = std::min(oldest, entry.second);
      }
      ASSERT_EQ(index.pages(), model.size()) << "seed " << seed;
      ASSERT_EQ(index.bytes(), bytes) << "seed " << seed;
      if (!model.empty()) {
        ASSERT_EQ(index.last_use(index.oldest()), oldest) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace prefix
