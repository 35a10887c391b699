// The address of a Redis server, as cache/store_plugin.h describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace prefix {

struct RedisAddress {
  std::string host;  // a name or an address, IPv6 without brackets; empty when there is a path
  uint16_t port = 6379;
  std::string path;  // of a socket
  std::string user;
  std::string password;  // empty: no login
  int database = 0;

  // For messages: without user and password.
  std::string display() const;
};

// Throws kInvalidArgument. As any part of a mistaken URL may hold the password, its messages quote
// nothing of it.
RedisAddress parse_redis_url(std::string_view url);

}  // namespace prefix
