// Values in the server that are not what their key says: every one is a miss, what was a page of
// ours is deleted and can be written again, and what was not is left alone.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "redis_support.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr size_t kPage = 3000;

class RedisDamage : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    StoreOptions options = patient();
    options.queue.threads = 1;  // so that what is asked next is done next
    tier_ = open_store(server_->url(), options);
    messages();
  }
  void set(uint64_t number, const std::string& value) const {
    ASSERT_EQ(server_->ask({"SET", redis_key(number), value}), "OK");
  }
  // A miss, deleted if it was ours; then the page can be put and got.
  void expect_miss(uint64_t number, const std::string& value, bool ours) {
    set(number, value);
    EXPECT_EQ(get(*tier_, number, kPage), Got::kMiss);
    (void)exists(*tier_, number);  // a miss is told before what was found is deleted
    EXPECT_TRUE(server_->ask({"GET", redis_key(number)}) == (ours ? "(nil)" : value));
    if (!ours) return;
    EXPECT_TRUE(put(*tier_, number, kPage));
    EXPECT_EQ(get(*tier_, number, kPage), Got::kRight);
    ++damaged_;
    EXPECT_EQ(tier_->stats().damaged, damaged_);
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Tier> tier_;
  uint64_t damaged_ = 0;
};

TEST_F(RedisDamage, TheValueOfATestIsThatOfATier) {
  set(1, value_of(1, kPage));
  EXPECT_EQ(get(*tier_, 1, kPage), Got::kRight);
  EXPECT_TRUE(put(*tier_, 2, kPage));
  EXPECT_TRUE(server_->ask({"GET", redis_key(2)}) == value_of(2, kPage));
}

TEST_F(RedisDamage, EachBitOfTheHeader) {
  const std::string right = value_of(1, kPage);
  for (size_t bit = 8 * 8; bit < 8 * kDiskHeader; bit += quick() ? 7 : 1) {
    std::string value = right;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ 1 << bit % 8);
    expect_miss(1, value, true);
  }
}

TEST_F(RedisDamage, AnyBitOfThePage) {
  std::mt19937 random(7);
  for (int i = 0; i < cases(1000); ++i) {
    std::string value = value_of(1, kPage);
    const size_t at = kDiskHeader + random() % kPage;
    value[at] = static_cast<char>(value[at] ^ 1 << random() % 8);
    expect_miss(1, value, true);
  }
}

TEST_F(RedisDamage, AnyLength) {
  std::mt19937 random(8);
  const std::string right = value_of(1, kPage);
  for (int i = 0; i < cases(300); ++i) {
    const size_t size = 8 + random() % (right.size() - 8);
    expect_miss(1, right.substr(0, size), true);
  }
  expect_miss(1, right.substr(0, right.size() - 1), true);
  expect_miss(1, right.substr(0, kDiskHeader), true);
  expect_miss(1, right + "x", true);
  expect_miss(1, right + right, true);
}

TEST_F(RedisDamage, AnotherPage) {
  expect_miss(1, value_of(2, kPage), true);  // right by itself, but of another key
  expect_miss(1, value_of(1, kPage - 1), true);
  expect_miss(1, value_of(1, kPage + 1), true);
}

TEST_F(RedisDamage, WhatIsNotOursStays) {
  const std::string right = value_of(1, kPage);
  std::vector<std::string> list = {"x",
                                   "hello",
                                   std::string(right.size(), '\0'),
                                   right.substr(1),
                                   right.substr(0, 7),
                                   std::string(2'000'000, 'y')};
  for (int bit = 0; bit < 64; ++bit) {
    list.push_back(right);
    list.back()[static_cast<size_t>(bit / 8)] ^= static_cast<char>(1 << bit % 8);
  }
  for (const std::string& value : list) {
    expect_miss(1, value, false);
    (void)put(*tier_, 1, kPage);
    EXPECT_TRUE(server_->ask({"GET", redis_key(1)}) == value);  // not overwritten either
  }
  // Nothing of it was read to its end.
  EXPECT_EQ(get(*tier_, 2, 1), Got::kMiss);
  EXPECT_EQ(messages().size(), 2u);  // the kind "no page", and the kind "another size"; once each
}

TEST_F(RedisDamage, AnotherTypeStays) {
  ASSERT_EQ(server_->ask({"RPUSH", redis_key(1), "a", "b"}), "2");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(get(*tier_, 1, kPage), Got::kMiss);
    EXPECT_FALSE(put(*tier_, 1, kPage));
  }
  EXPECT_EQ(server_->ask({"LLEN", redis_key(1)}), "2");
  EXPECT_EQ(messages().size(), 1u);
  EXPECT_GE(tier_->stats().errors, 6u);
  // Its neighbours do not suffer.
  const Pages pages(0, 5, kPage);
  EXPECT_EQ(put_all(*tier_, pages), 4u);
  EXPECT_EQ(get_all(*tier_, pages), 4u);
}

}  // namespace
}  // namespace prefix
