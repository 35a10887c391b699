#include "cache/store/redis_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr size_t kIncoming = 256 << 10;

// Waits for one of the events; 0 when time is up.
short wait_for(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return 0;
    pollfd poll{socket, events, 0};
    const timespec time{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    const int ready = ppoll(&poll, 1, &time, nullptr);
    if (ready > 0) return poll.revents;
    if (ready < 0 && errno != EINTR) return POLLERR;
  }
}

}  // namespace

void RedisPipeline::append(std::string_view text) {
  text_ += text;
  if (pieces_.empty() || pieces_.back().outside) pieces_.push_back({nullptr, 0});
  pieces_.back().size += text.size();
}

void RedisPipeline::begin(size_t arguments) { append(cat('*', arguments, "\r\n")); }

void RedisPipeline::argument(std::string_view text) {
  append(cat('$', text.size(), "\r\n"));
  append(text);
  append("\r\n");
}

void RedisPipeline::add(std::initializer_list<std::string_view> arguments) {
  begin(arguments.size());
  for (const std::string_view text : arguments) argument(text);
}

void RedisPipeline::add_set(std::string_view key, const DiskHeader& header,
                            std::span<const std::byte> page, std::span<const std::string> options) {
  begin(3 + options.size());
  argument("SET");
  argument(key);
  append(cat('$', header.size() + page.size(), "\r\n"));
  append({reinterpret_cast<const char*>(header.data()), header.size()});
  if (!page.empty()) pieces_.push_back({page.data(), page.size()});
  append("\r\n");
  for (const std::string& option : options) argument(option);
}

RedisConnection::RedisConnection(const RedisAddress& address) : address_(address) {}
RedisConnection::~RedisConnection() { close(); }

void RedisConnection::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  replies_.end();
}

bool RedisConnection::fail_with(std::string why) {
  close();
  failure_ = std::move(why);
  return false;
}

bool RedisConnection::usable() const {
  pollfd poll{socket_, POLLIN, 0};
  return socket_ >= 0 && ::poll(&poll, 1, 0) == 0;
}

bool RedisConnection::open(Deadline deadline) {
  close();
  return connect_any(deadline) && set_up(deadline);
}

bool RedisConnection::connect_any(Deadline deadline) {
  if (!address_.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    address_.path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return connect(&address, sizeof(address), deadline);
  }
  std::string why;
  const std::vector<SocketAddress> found = name_.find(address_.host, address_.port, deadline, &why);
  if (found.empty()) return fail_with("cannot be reached: " + why);
  for (const SocketAddress& address : found)
    if (connect(&address.address, address.size, deadline)) return true;
  return false;
}

bool RedisConnection::connect(const void* address, size_t size, Deadline deadline) {
  close();
  const auto* const generic = static_cast<const sockaddr*>(address);
  socket_ = socket(generic->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return fail_with("cannot be reached: socket: " + error_text(errno));
  if (generic->sa_family != AF_UNIX) {
    const int on = 1;  // commands go out at once, and a server that has gone is noticed
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  }
  int error = ::connect(socket_, generic, static_cast<socklen_t>(size)) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    if (!wait_for(socket_, POLLOUT, deadline))
      return fail_with("cannot be reached: no answer in time");
    socklen_t length = sizeof(error);
    if (getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  }
  if (error) return fail_with("cannot be reached: " + error_text(error));
  return true;
}

bool RedisConnection::set_up(Deadline deadline) {
  if (!replies_.begin()) return fail_with("no memory for a connection");
  RedisPipeline pipeline;
  std::vector<const char*> names;
  if (!address_.password.empty()) {
    names.push_back("AUTH");
    if (address_.user.empty()) {
      pipeline.add({"AUTH", address_.password});
    } else {
      pipeline.add({"AUTH", address_.user, address_.password});
    }
  }
  if (address_.database != 0) {
    names.push_back("SELECT");
    pipeline.add({"SELECT", cat(address_.database)});
  }
  names.push_back("PING");
  pipeline.add({"PING"});
  std::vector<RedisReply> replies(names.size());
  const bool complete = exchange(pipeline, replies, deadline);
  for (size_t i = 0; i < names.size(); ++i) {
    const RedisReply& reply = replies[i];
    if (reply.type == RedisReply::Type::kStatus) continue;
    if (reply.type == RedisReply::Type::kNone) break;
    if (reply.type != RedisReply::Type::kError)
      return fail_with(cat("answers ", names[i], " with something else than OK"));
    // The first word only: a server that does not know AUTH repeats the password behind it.
    const bool secret = i == 0 && !address_.password.empty();
    const std::string text = secret ? reply.text.substr(0, reply.text.find(' ')) : reply.text;
    return fail_with(cat("answers ", names[i], " with ", quote(text, RedisReplies::kLongestText)));
  }
  return complete;
}

bool RedisConnection::exchange(const RedisPipeline& pipeline, std::span<RedisReply> replies,
                               Deadline deadline) {
  // Closes when memory runs out on the way.
  struct Closing {
    RedisConnection* connection;
    ~Closing() {
      if (connection) connection->close();
    }
  } closing{this};
  if (socket_ < 0) return fail_with("is not connected");
  incoming_.resize(kIncoming);
  sent_ = send_total_ = 0;
  for (const RedisPipeline::Piece& piece : pipeline.pieces_) send_total_ += piece.size;
  replies_.expect(replies);
  while (!replies_.complete()) {
    const bool sending = sent_ < send_total_;
    const short ready =
        wait_for(socket_, static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), deadline);
    if (!ready) return fail_with("does not answer in time");
    if ((ready & ~POLLOUT) != 0 && !receive_some()) return false;
    if (sending && (ready & POLLOUT) && !send_some(pipeline)) return false;
  }
  if (sent_ < send_total_ || !replies_.silent()) return fail_with("answers what was not asked");
  closing.connection = nullptr;
  return true;
}

bool RedisConnection::send_some(const RedisPipeline& pipeline) {
  std::array<iovec, 64> list;
  size_t count = 0;
  size_t skip = sent_;
  const char* text = pipeline.text_.data();
  for (const RedisPipeline::Piece& piece : pipeline.pieces_) {
    if (count == list.size()) break;
    const void* const start = piece.outside ? static_cast<const void*>(piece.outside) : text;
    if (!piece.outside) text += piece.size;
    const size_t done = std::min(skip, piece.size);
    skip -= done;
    if (done == piece.size) continue;
    // The system only reads what it sends.
    list[count++] = {const_cast<char*>(static_cast<const char*>(start)) + done, piece.size - done};
  }
  msghdr message{};
  message.msg_iov = list.data();
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return true;
    return fail_with("breaks off: " + error_text(errno));
  }
  sent_ += static_cast<size_t>(sent);
  return true;
}

bool RedisConnection::receive_some() {
  const ssize_t got = recv(socket_, incoming_.data(), incoming_.size(), MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return true;
    return fail_with("breaks off: " + error_text(errno));
  }
  if (got == 0) return fail_with("breaks off: it closed the connection");
  std::string problem = replies_.feed({incoming_.data(), static_cast<size_t>(got)});
  return problem.empty() || fail_with(std::move(problem));
}

}  // namespace prefix
