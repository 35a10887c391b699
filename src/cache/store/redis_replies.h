// Replies of a Redis server: bytes, in pieces of any size, become as many RedisReply as were asked
// for. What reads them is hiredis; what it finds in a string goes to where it is wanted.
//
//   bytes ──feed()──> hiredis' reader ──> RedisReply 0, 1, ...
//                                            └ a page goes to its buffer
//
// The bytes come from another machine: they may be anything. At most as many are taken as the
// replies can need.
#pragma once

#include <hiredis/read.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cache/disk_format.h"

namespace prefix {

struct RedisReply {
  enum class Type { kNone, kStatus, kError, kInteger, kNil, kString };

  // Where the bytes of a string are wanted, and how many there may be.
  std::byte* page = nullptr;
  size_t page_size = 0;

  Type type = Type::kNone;  // kNone: has not come
  int64_t integer = 0;
  std::string text;  // of a status or an error, at most 200 bytes
  // Of a string: its size, and its first bytes. The rest is in `page` when that is its size.
  size_t size = 0;
  DiskHeader header{};
};

class RedisReplies {
 public:
  static constexpr size_t kLongestText = 200;

  RedisReplies() = default;
  RedisReplies(const RedisReplies&) = delete;
  RedisReplies& operator=(const RedisReplies&) = delete;

  // Forgets all bytes, as a new connection does. False when there is no memory.
  bool begin();
  void end() { reader_.reset(); }
  // What comes from now on is for these, which stay until all of them have come.
  void expect(std::span<RedisReply> replies);
  // Takes what came. Returns why the rest can be no reply to what was asked; empty while it can.
  std::string feed(std::string_view bytes);
  // All replies have come.
  bool complete() const { return answered_ == replies_.size(); }
  // Nothing came after the last of them.
  bool silent() const { return reader_->pos == reader_->len; }

 private:
  struct ReaderFree {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };

  std::unique_ptr<redisReader, ReaderFree> reader_;
  std::span<RedisReply> replies_;
  RedisReply* current_ = nullptr;  // that hiredis reads
  size_t answered_ = 0;
  size_t room_ = 0;  // bytes that may still come
};

}  // namespace prefix
