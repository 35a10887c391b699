// Pages in a real Redis server: what is put is what comes back, in few trips, for all who share the
// server, and for as long as it is used.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "redis_support.h"

namespace prefix {
namespace {

using namespace testing_support;

#define NEEDS_REDIS() \
  if (const std::string why = no_redis(); !why.empty()) GTEST_SKIP() << why

constexpr size_t kPage = 5000;

TEST(RedisTier, PagesOfManySizesComeBack) {
  NEEDS_REDIS();
  const RedisServer server;
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  size_t total = 0;
  for (const size_t size : {1u, 7u, 88u, 1000u, 16384u, 100'000u, 3'000'000u}) {
    const size_t count = size > 1'000'000 ? 20 : 200;
    const Pages pages(1000 * size, count, size);
    EXPECT_EQ(get_all(*tier, pages), 0u);
    EXPECT_EQ(exist_all(*tier, pages), 0u);
    EXPECT_EQ(put_all(*tier, pages), count);
    EXPECT_EQ(exist_all(*tier, pages), count);
    EXPECT_EQ(get_all(*tier, pages), count) << size;
    total += count;
  }
  const TierStats s = tier->stats();
  EXPECT_EQ(s.stored, total);
  EXPECT_EQ(s.hits, total);
  EXPECT_EQ(s.misses, total);
  EXPECT_EQ(s.errors + s.damaged + s.refused, 0u);
}

}  // namespace
}  // namespace prefix
