#include "tree/child_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace prefix {
namespace {

TEST(ChildMap, AgreesWithStdMapUnderRandomInsertsAndErases) {
  std::mt19937 random(7);
  ChildMap map;
  std::map<std::pair<int32_t, int32_t>, int32_t> oracle;
  for (int i = 0; i < 200000; ++i) {
    const std::pair<int32_t, int32_t> key(static_cast<int32_t>(random() % 40),
                                          static_cast<int32_t>(random() % 60));
    if (random() % 2) {
      map.set(key.first, key.second, i);
      oracle[key] = i;
    } else {
      map.erase(key.first, key.second);
      oracle.erase(key);
    }
    const auto found = oracle.find(key);
    ASSERT_EQ(map.find(key.first, key.second), found == oracle.end() ? -1 : found->second);
    ASSERT_EQ(map.size(), oracle.size());
  }
  for (const auto& [key, child] : oracle) ASSERT_EQ(map.find(key.first, key.second), child);
}

TEST(ChildMap, KeepsNegativeAndLargeTokensApart) {
  ChildMap map;
  map.set(0, -1, 5);
  map.set(0, 0x7fffffff, 6);
  map.set(1, -1, 7);
  EXPECT_EQ(map.find(0, -1), 5);
  EXPECT_EQ(map.find(0, 0x7fffffff), 6);
  EXPECT_EQ(map.find(1, -1), 7);
  EXPECT_EQ(map.find(1, 0), -1);
}

}  // namespace
}  // namespace prefix
