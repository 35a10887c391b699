#include "tree/child_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace prefix {
namespace {

using Key = std::pair<int32_t, int32_t>;

TEST(ChildMap, AgreesWithStdMapUnderRandomInsertsAndErases) {
  std::mt19937 random(7);
  ChildMap map;
  std::map<Key, int32_t> oracle;
  std::vector<Key> keys;  // of child i
  const auto find = [&](const Key& key) {
    return map.find(key.first, key.second,
                    [&](int32_t child) { return keys[static_cast<size_t>(child)] == key; });
  };
  for (int32_t i = 0; i < 200000; ++i) {
    const Key key(static_cast<int32_t>(random() % 40), static_cast<int32_t>(random() % 60));
    keys.push_back(key);
    const auto old = oracle.find(key);
    if (random() % 2) {
      if (old == oracle.end()) {
        map.add(key.first, key.second, i);
      } else {
        map.replace(key.first, key.second, old->second, i);
      }
      oracle[key] = i;
    } else if (old != oracle.end()) {
      map.erase(key.first, key.second, old->second);
      oracle.erase(old);
    }
    const auto found = oracle.find(key);
    ASSERT_EQ(find(key), found == oracle.end() ? -1 : found->second);
    ASSERT_EQ(map.size(), oracle.size());
  }
  for (const auto& [key, child] : oracle) ASSERT_EQ(find(key), child);
}

TEST(ChildMap, KeepsNegativeAndLargeTokensApart) {
  ChildMap map;
  const Key keys[] = {{0, -1}, {0, 0x7fffffff}, {1, -1}, {1, 0}};
  for (int32_t i = 0; i < 3; ++i) map.add(keys[i].first, keys[i].second, i);
  for (int32_t i = 0; i < 4; ++i)
    EXPECT_EQ(map.find(keys[i].first, keys[i].second,
                       [&](int32_t child) { return keys[child] == keys[i]; }),
              i < 3 ? i : -1);
}

TEST(ChildMap, TakesTenBytesPerEntryOrLittleMore) {
  ChildMap map;
  for (int32_t i = 0; i < 1000000; ++i) map.add(i / 3, i % 3, i);
  EXPECT_LE(map.metadata_bytes(), 17u * 1000000u);
}

}  // namespace
}  // namespace prefix
