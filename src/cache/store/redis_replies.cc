#include "cache/store/redis_replies.h"

#include <algorithm>
#include <cstring>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr size_t kReplyRoom = 1024;  // for what is around the bytes of a page, or an error

RedisReply* reply_of(const redisReadTask* task) {
  return *static_cast<RedisReply**>(task->privdata);
}

// hiredis calls these with what it has read; null means no memory, and closes the connection.
void* read_text(const redisReadTask* task, char* text, size_t size) {
  RedisReply* const reply = reply_of(task);
  if (task->type == REDIS_REPLY_STRING) {
    reply->type = RedisReply::Type::kString;
    reply->size = size;
    const size_t head = std::min(size, kDiskHeader);
    std::memcpy(reply->header.data(), text, head);
    if (reply->page && size == kDiskHeader + reply->page_size)
      std::copy_n(text + kDiskHeader, reply->page_size, reinterpret_cast<char*>(reply->page));
    return reply;
  }
  try {
    reply->text.assign(text, std::min(size, RedisReplies::kLongestText));
  } catch (...) {
    return nullptr;
  }
  if (task->type == REDIS_REPLY_STATUS) reply->type = RedisReply::Type::kStatus;
  if (task->type == REDIS_REPLY_ERROR) reply->type = RedisReply::Type::kError;
  return reply;
}
void* read_integer(const redisReadTask* task, long long value) {
  RedisReply* const reply = reply_of(task);
  reply->type = RedisReply::Type::kInteger;
  reply->integer = value;
  return reply;
}
void* read_nil(const redisReadTask* task) {
  RedisReply* const reply = reply_of(task);
  reply->type = RedisReply::Type::kNil;
  return reply;
}

redisReplyObjectFunctions* reply_functions() {
  static redisReplyObjectFunctions functions = [] {
    redisReplyObjectFunctions f{};
    f.createString = read_text;
    // Nothing that we ask has a list for an answer. Its parameters depend on hiredis' version.
    f.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };
    f.createInteger = read_integer;
    f.createNil = read_nil;
    f.freeObject = [](void*) {};
    return f;
  }();
  return &functions;
}

}  // namespace

bool RedisReplies::begin() {
  reader_.reset(redisReaderCreateWithFunctions(reply_functions()));
  if (!reader_) return false;
  reader_->maxbuf = 0;  // keeps its memory from page to page
  reader_->privdata = &current_;
  return true;
}

void RedisReplies::expect(std::span<RedisReply> replies) {
  replies_ = replies;
  answered_ = room_ = 0;
  for (const RedisReply& reply : replies) room_ += kReplyRoom + kDiskHeader + reply.page_size;
}

std::string RedisReplies::feed(std::string_view bytes) {
  if (bytes.size() > room_) return "answers more than was asked";
  room_ -= bytes.size();
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK)
    return "no memory for what it answers";
  for (; answered_ < replies_.size(); ++answered_) {
    current_ = &replies_[answered_];
    void* object = nullptr;
    if (redisReaderGetReply(reader_.get(), &object) != REDIS_OK)
      return cat("answers against the protocol: ", quote(reader_->errstr));
    if (!object) break;
    if (current_->type == RedisReply::Type::kNone)
      return "answers with something that was not asked";
  }
  return {};
}

}  // namespace prefix
