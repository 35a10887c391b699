// Addresses of stores: what is understood, what is refused and why, and never a password in a
// message.
#include "cache/store/redis_url.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/status.h"
#include "disk_support.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::cases;
using testing_support::expect_error;

TEST(RedisUrl, Understood) {
  struct Case {
    const char* url;
    RedisAddress address;
    const char* display;
  };
  const Case list[] = {
      {"redis://host", {"host", 6379}, "redis://host:6379/0"},
      {"redis://a-b_c.example:1/15",
       {"a-b_c.example", 1, "", "", "", 15},
       "redis://a-b_c.example:1/15"},
      {"redis://10.0.0.7:65535/0", {"10.0.0.7", 65535}, "redis://10.0.0.7:65535/0"},
      {"redis://[::1]", {"::1", 6379}, "redis://[::1]:6379/0"},
      {"redis://[fe80::1.2.3.4]:7/2",
       {"fe80::1.2.3.4", 7, "", "", "", 2},
       "redis://[fe80::1.2.3.4]:7/2"},
      {"redis://:pw@host", {"host", 6379, "", "", "pw"}, "redis://host:6379/0"},
      {"redis://ann:p%40%3a%2Fw@host:9", {"host", 9, "", "ann", "p@:/w"}, "redis://host:9/0"},
      {"unix:///run/redis.sock", {"", 6379, "/run/redis.sock"}, "unix://\"/run/redis.sock\""},
      {"unix://ann:pw@/r%20s", {"", 6379, "/r s", "ann", "pw"}, "unix://\"/r s\""},
  };
  for (const Case& c : list) {
    const RedisAddress got = parse_redis_url(c.url);
    EXPECT_EQ(got.host, c.address.host) << c.url;
    EXPECT_EQ(got.port, c.address.port) << c.url;
    EXPECT_EQ(got.path, c.address.path) << c.url;
    EXPECT_EQ(got.user, c.address.user) << c.url;
    EXPECT_EQ(got.password, c.address.password) << c.url;
    EXPECT_EQ(got.database, c.address.database) << c.url;
    EXPECT_EQ(got.display(), c.display);
  }
}

TEST(RedisUrl, Refused) {
  struct Case {
    std::string url;
    const char* part;
  };
  const Case list[] = {
      {"", "begins with neither"},
      {"host:6379", "begins with neither"},
      {"http://host", "begins with neither"},
      {"Redis://host", "begins with neither"},
      {"rediss://host", "TLS"},
      {"redis://", "no host"},
      {"redis:///3", "no host"},
      {"redis://:6379", "no host"},
      {"redis://host:", "port is no number"},
      {"redis://host:0", "port is no number"},
      {"redis://host:65536", "port is no number"},
      {"redis://host:-1", "port is no number"},
      {"redis://host:+1", "port is no number"},
      {"redis://host:99999999999999999999", "port is no number"},
      {"redis://host/", "database is no number"},
      {"redis://host/x", "database is no number"},
      {"redis://host/1/2", "database is no number"},
      {"redis://host/1?timeout=3", "database is no number"},
      {"redis://host?db=1", "host has characters"},
      {"redis://ho st", "host has characters"},
      {"redis://::1", "no host"},
      {"redis://fe80::1", "port is no number"},
      {"redis://[::1", "brackets"},
      {"redis://[host]", "brackets"},
      {"redis://[::1]x", "follows the host"},
      {"redis://ann@host", "login without a password"},
      {"redis://ann:@host", "login without a password"},
      {"redis://a:b:c@host", "%3A"},
      {"redis://a:b/c@host", "%XX"},
      {"redis://a:b@c@host", "host has characters"},
      {"redis://a:%4@host", "hexadecimal"},
      {"redis://a:%zz@host", "hexadecimal"},
      {"redis://a:%00@host", "zero byte"},
      {"unix://", "does not begin with /"},
      {"unix://run/redis.sock", "does not begin with /"},
      {"unix:///" + std::string(200, 'x'), "more than 107 bytes"},
      {"unix:///a?db=1", "%XX"},
      {"redis://" + std::string(300, 'h'), "host has characters"},
      {"redis://" + std::string(5000, 'h'), "more than 4096"},
      {std::string("redis://ho\0st", 13), "host has characters"},
  };
  for (const Case& c : list)
    expect_error(Code::kInvalidArgument, {"store: ", c.part, "redis://[user"},
                 [&] { parse_redis_url(c.url); });
}

TEST(RedisUrl, NoMessageHoldsAPassword) {
  std::mt19937 random(1);
  const std::string alphabet = "redis:unix/@%?#[]0123456789abcXYZ. \x01\xff";
  const std::string secret = "Tr0ub4dor";
  int understood = 0;
  for (int i = 0; i < cases(200'000); ++i) {
    std::string url = random() % 4 ? "redis://" : "unix://";
    if (random() % 2) url += "u:" + secret + "@/host:7/";
    for (unsigned n = random() % 6; n > 0; --n) {
      const std::string piece =
          random() % 5 ? std::string(1, alphabet[random() % alphabet.size()]) : secret;
      url.insert(url.size() - random() % std::min<size_t>(url.size(), 20), piece);
    }
    try {
      const RedisAddress address = parse_redis_url(url);
      ++understood;
      if (address.host.find(secret) == std::string::npos &&
          address.path.find(secret) == std::string::npos) {
        EXPECT_EQ(address.display().find(secret), std::string::npos) << url;
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.message().find(secret), std::string::npos) << url;
    }
  }
  EXPECT_GT(understood, 0);
}

}  // namespace
}  // namespace prefix
