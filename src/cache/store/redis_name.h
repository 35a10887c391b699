// The addresses of a host's name, within a time. getaddrinfo() has no limit of its own, so it runs
// on a thread of its own, which is left alone when time is up:
//
//   find() ──> [ pending ] ──────────────> addresses
//                  └── time is up: nothing; the next find() waits for the same thread
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace prefix {

struct SocketAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
};

class RedisName {
 public:
  // An empty list and a reason when there is none.
  std::vector<SocketAddress> find(const std::string& host, uint16_t port,
                                  std::chrono::steady_clock::time_point deadline,
                                  std::string* failure);

 private:
  struct Pending;
  std::shared_ptr<Pending> pending_;
};

}  // namespace prefix
