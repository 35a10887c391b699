#include "cache/store/redis_name.h"

#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error_text.h"
#include "base/signals.h"
#include "base/status.h"

namespace prefix {
namespace {

int look_up(const std::string& host, uint16_t port, int flags, std::vector<SocketAddress>* found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), cat(port).c_str(), &hints, &list);
  if (error) return error;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  for (const addrinfo* a = list; a; a = a->ai_next) {
    SocketAddress address;
    if (a->ai_addrlen > sizeof(address.address)) continue;
    std::memcpy(&address.address, a->ai_addr, a->ai_addrlen);
    address.size = a->ai_addrlen;
    found->push_back(address);
  }
  return 0;
}

}  // namespace

struct RedisName::Pending {
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  bool done = false;
  int error = 0;
  std::vector<SocketAddress> found;
};

std::vector<SocketAddress> RedisName::find(const std::string& host, uint16_t port,
                                           std::chrono::steady_clock::time_point deadline,
                                           std::string* failure) {
  std::vector<SocketAddress> found;
  if (look_up(host, port, AI_NUMERICHOST, &found) == 0) return found;
  if (!pending_) {
    auto pending = std::make_shared<Pending>();
    const SignalsBlocked blocked;
    std::thread([pending, host, port] {
      std::vector<SocketAddress> addresses;
      int error = EAI_MEMORY;
      try {
        error = look_up(host, port, 0, &addresses);
      } catch (...) {
      }
      const std::lock_guard lock(pending->mutex);
      pending->error = error;
      pending->found.swap(addresses);
      pending->done = true;
      pending->changed.notify_all();
    }).detach();
    pending_ = std::move(pending);
  }
  const std::shared_ptr<Pending> pending = pending_;
  std::unique_lock lock(pending->mutex);
  if (!pending->changed.wait_until(lock, deadline, [&] { return pending->done; })) {
    *failure = "its name was not found in time";
    return {};
  }
  pending_.reset();
  const PlainLocale locale;
  if (pending->error) *failure = cat("its name: ", gai_strerror(pending->error));
  if (!pending->error && pending->found.empty()) *failure = "its name has no address";
  return pending->found;
}

}  // namespace prefix
