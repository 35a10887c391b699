// One connection to a Redis server. Commands go there in one trip, replies come back in order, and
// all of it ends at a deadline, however slowly the bytes drip:
//
//   RedisPipeline  [GETRANGE k0][GETRANGE k1]...[SET k7 | page |]   a page is sent from its place
//        exchange() ──send──> server ──recv──> RedisReplies ──> RedisReply 0, 1, ...
//
// The reader of replies is hiredis (redis_replies.h); the socket is ours, because hiredis limits
// the time of each call of the system and not that of a trip, and copies what it sends. A
// connection that was in any doubt, late, broken off, answering more than it was asked, is closed:
// the next reply could belong to another question.
//
// One thread at a time. Nothing throws but for lack of memory, which closes the connection too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/disk_format.h"
#include "cache/store/redis_name.h"
#include "cache/store/redis_replies.h"
#include "cache/store/redis_url.h"
#include "cache/tier.h"

namespace prefix {

using Deadline = std::chrono::steady_clock::time_point;

// Commands in the protocol's form.
class RedisPipeline {
 public:
  void add(std::initializer_list<std::string_view> arguments);
  // SET key value ..., where the value is a header and a page that must stay until it is sent.
  void add_set(std::string_view key, const DiskHeader& header, std::span<const std::byte> page,
               std::span<const std::string> options);

 private:
  friend class RedisConnection;
  struct Piece {
    const std::byte* outside;  // null: the next bytes of text_
    size_t size;
  };

  void begin(size_t arguments);
  void argument(std::string_view text);
  void append(std::string_view text);

  std::string text_;
  std::vector<Piece> pieces_;
};

class RedisConnection {
 public:
  explicit RedisConnection(const RedisAddress& address);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // True when it is open and silent, as it is between trips.
  bool usable() const;
  // Connects, logs in and chooses the database.
  bool open(Deadline deadline);
  void close();
  // As many replies as commands. When it returns false the connection is closed; replies that came
  // before are in place.
  bool exchange(const RedisPipeline& pipeline, std::span<RedisReply> replies, Deadline deadline);
  // Why the last call returned false, without anything secret.
  const std::string& failure() const { return failure_; }

 private:
  bool fail_with(std::string why);
  bool connect(const void* address, size_t size, Deadline deadline);
  bool connect_any(Deadline deadline);
  bool set_up(Deadline deadline);
  bool send_some(const RedisPipeline& pipeline);
  bool receive_some();

  const RedisAddress& address_;
  RedisName name_;
  int socket_ = -1;
  RedisReplies replies_;
  std::string failure_;
  std::vector<char> incoming_;

  // Of the trip.
  size_t sent_ = 0;  // bytes
  size_t send_total_ = 0;
};

}  // namespace prefix
