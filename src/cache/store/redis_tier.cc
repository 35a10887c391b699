#include "cache/store/redis_tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

using Type = RedisReply::Type;

constexpr uint64_t kLargestValue = 512ull << 20;  // of any server, unless it is told otherwise
constexpr size_t kMagic = 8;                      // bytes that every page's header begins with
constexpr size_t kMaxComplaints = 64;

std::string redis_key(const PageKey& key) { return "prefix:page:1:" + key.hex(); }

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

}  // namespace

// Taken from the idle ones, and given back when the call is done.
struct RedisTier::Line {
  explicit Line(const RedisAddress& address) : connection(address) {}
  RedisConnection connection;
  uint64_t age = 0;
};

RedisTier::RedisTier(RedisAddress address, const StoreOptions& options)
    : address_(std::move(address)),
      options_(options),
      time_to_live_(cat(options.time_to_live.count())),
      gate_(options.pause),
      queue_(options.queue,
             [this](TierCall& call, size_t first, size_t count) { work(call, first, count); }) {}

RedisTier::~RedisTier() { stop_ = true; }

TicketPtr RedisTier::exists(std::span<const PageKey> keys) noexcept {
  return queue_.start(TierCall::Kind::kExists, keys, {}, {});
}

TicketPtr RedisTier::get(std::span<const PageKey> keys,
                         std::span<const PageBuffer> buffers) noexcept {
  return queue_.start(TierCall::Kind::kGet, keys, buffers, {});
}

TicketPtr RedisTier::put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept {
  return queue_.start(TierCall::Kind::kPut, keys, {}, blobs);
}

TierStats RedisTier::stats() const noexcept { return queue_.stats(); }

bool RedisTier::writing() const {
  return now_ns() >= writable_again_.load(std::memory_order_relaxed);
}

bool RedisTier::refreshing() const { return options_.time_to_live.count() > 0 && writing(); }

void RedisTier::work(TierCall& call, size_t first, size_t count) {
  const size_t end = first + count;
  const StoreGate::Answer answer = gate_.ask();
  if (answer == StoreGate::Answer::kClosed) return;  // what is left here is a miss
  if (answer == StoreGate::Answer::kProbe) {
    const Outcome nothing =
        call.kind == TierCall::Kind::kPut ? Outcome::kNotStored : Outcome::kMiss;
    for (size_t i = first; i < end; ++i) queue_.complete(call, i, nothing);
    return probe();
  }
  std::unique_ptr<Line> line = take_line();
  if (!connect(*line)) return give_back(std::move(line));
  bool going = true;
  if (call.kind == TierCall::Kind::kExists) {
    going = exists_pages(*line, call, first, end);
  } else if (call.kind == TierCall::Kind::kPut) {
    going = put_pages(*line, call, first, end);
  } else {
    for (size_t next = first; going && next < end && !leaving(call);) {
      size_t last = next + 1;
      uint64_t bytes = call.buffers[next].size;
      while (last < end && bytes + call.buffers[last].size <= options_.trip_bytes)
        bytes += call.buffers[last++].size;
      going = get_pages(*line, call, next, last);
      next = last;
    }
  }
  if (going && gate_.works(line->age))
    log_message(LogLevel::kInfo, cat("cache store ", address_.display(), " works again"));
  give_back(std::move(line));
}

std::unique_ptr<RedisTier::Line> RedisTier::take_line() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Line> line = std::move(idle_.back());
      idle_.pop_back();
      return line;
    }
  }
  return std::make_unique<Line>(address_);
}

void RedisTier::give_back(std::unique_ptr<Line> line) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(line));
}

bool RedisTier::connect(Line& line) {
  const uint64_t age = gate_.age();
  if (line.age == age && line.connection.usable()) return true;
  line.age = age;
  if (line.connection.open(StoreGate::Clock::now() + options_.connect_timeout)) return true;
  return broken(line, line.connection.failure());
}

void RedisTier::probe() {
  const uint64_t age = gate_.age();
  try {
    std::unique_ptr<Line> line = take_line();
    line->age = age;
    if (line->connection.open(StoreGate::Clock::now() + options_.connect_timeout)) {
      gate_.answered();
    } else {
      broken(*line, line->connection.failure());
    }
    give_back(std::move(line));
  } catch (...) {
    gate_.failed(age);  // or it would be probing for ever
    throw;
  }
}

bool RedisTier::exists_pages(Line& line, TierCall& call, size_t first, size_t end) {
  RedisPipeline pipeline;
  for (size_t i = first; i < end; ++i) pipeline.add({"EXISTS", redis_key(call.keys[i])});
  Replies replies(end - first);
  bool going = trip(line, pipeline, replies);
  for (size_t i = first; i < end; ++i) {
    const RedisReply& reply = replies[i - first];
    going = is_expected(line, reply, Type::kInteger, Command::kRead) && going;
    const bool there = reply.type == Type::kInteger && reply.integer == 1;
    queue_.complete(call, i, there ? Outcome::kHit : Outcome::kMiss);
  }
  return going;
}

bool RedisTier::get_pages(Line& line, TierCall& call, size_t first, size_t end) {
  const bool refresh = refreshing();
  const size_t step = refresh ? 2 : 1;
  RedisPipeline pipeline;
  std::vector<size_t> pages;
  for (size_t i = first; i < end; ++i) {
    if (!call.buffers[i].data) continue;
    const std::string key = redis_key(call.keys[i]);
    pipeline.add({"GETRANGE", key, "0", cat(kDiskHeader + call.buffers[i].size)});
    if (refresh) pipeline.add({"PEXPIRE", key, time_to_live_});
    pages.push_back(i);
  }
  Replies replies(pages.size() * step);
  for (size_t j = 0; j < pages.size(); ++j) {
    replies[j * step].page = call.buffers[pages[j]].data.get();
    replies[j * step].page_size = call.buffers[pages[j]].size;
  }
  bool going = trip(line, pipeline, replies);
  std::vector<std::string> damaged;
  for (size_t j = 0; j < pages.size(); ++j) {
    const RedisReply& reply = replies[j * step];
    const PageKey& key = call.keys[pages[j]];
    going = is_expected(line, reply, Type::kString, Command::kRead) && going;
    if (refresh)
      going = is_expected(line, replies[j * step + 1], Type::kInteger, Command::kWrite) && going;
    const bool there = reply.type == Type::kString && reply.size > 0;
    const bool hit = there && reply.size == kDiskHeader + reply.page_size &&
                     reply.header == disk_header(key, {reply.page, reply.page_size});
    queue_.complete(call, pages[j], hit ? Outcome::kHit : Outcome::kMiss);
    if (!there || hit) continue;
    queue_.count([](TierStats& s) { ++s.damaged; });
    const bool ours = reply.size >= kMagic &&
                      std::memcmp(reply.header.data(), disk_header(key, {}).data(), kMagic) == 0;
    complain(ours ? "damaged" : "foreign", cat(ours ? "has a damaged page, which is deleted: "
                                                    : "has something that is no page: ",
                                               redis_key(key)));
    if (ours) damaged.push_back(redis_key(key));
  }
  if (!going || damaged.empty() || !writing()) return going;
  return remove_damaged(line, damaged);
}

bool RedisTier::remove_damaged(Line& line, std::span<const std::string> keys) {
  RedisPipeline pipeline;
  for (const std::string& key : keys) pipeline.add({"DEL", key});
  Replies replies(keys.size());
  bool going = trip(line, pipeline, replies);
  for (const RedisReply& reply : replies)
    going = is_expected(line, reply, Type::kInteger, Command::kWrite) && going;
  return going;
}

bool RedisTier::put_pages(Line& line, TierCall& call, size_t first, size_t end) {
  if (!writing()) return true;
  const bool refresh = refreshing();
  const size_t step = refresh ? 2 : 1;
  RedisPipeline pipeline;
  std::vector<size_t> pages;
  for (size_t i = first; i < end; ++i) {
    if (!call.blobs[i].data) continue;
    if (call.blobs[i].size > kLargestValue - kDiskHeader) {
      queue_.count([](TierStats& s) { ++s.too_large; });
      continue;
    }
    const std::string key = redis_key(call.keys[i]);
    pipeline.add({"STRLEN", key});
    if (refresh) pipeline.add({"PEXPIRE", key, time_to_live_});
    pages.push_back(i);
  }
  Replies replies(pages.size() * step);
  bool going = trip(line, pipeline, replies);
  std::vector<size_t> absent;
  for (size_t j = 0; j < pages.size(); ++j) {
    const RedisReply& reply = replies[j * step];
    going = is_expected(line, reply, Type::kInteger, Command::kRead) && going;
    if (refresh)
      going = is_expected(line, replies[j * step + 1], Type::kInteger, Command::kWrite) && going;
    if (reply.type != Type::kInteger) continue;
    if (reply.integer == static_cast<int64_t>(kDiskHeader + call.blobs[pages[j]].size)) {
      queue_.complete(call, pages[j], Outcome::kKept);
    } else if (reply.integer == 0) {
      absent.push_back(pages[j]);
    } else {
      // The next get of it finds out whether it is a page of ours.
      complain("size", cat("has a value of another size: ", redis_key(call.keys[pages[j]])));
    }
  }
  for (size_t next = 0; going && next < absent.size() && writing() && !leaving(call);) {
    size_t last = next + 1;
    uint64_t bytes = call.blobs[absent[next]].size;
    while (last < absent.size() && bytes + call.blobs[absent[last]].size <= options_.trip_bytes)
      bytes += call.blobs[absent[last++]].size;
    going = write_pages(line, call, std::span(absent).subspan(next, last - next));
    next = last;
  }
  return going;
}

bool RedisTier::write_pages(Line& line, TierCall& call, std::span<const size_t> pages) {
  std::vector<std::string> options = {"NX"};
  if (options_.time_to_live.count() > 0) options.insert(options.end(), {"PX", time_to_live_});
  RedisPipeline pipeline;
  for (const size_t i : pages) {
    const std::span<const std::byte> page(call.blobs[i].data.get(), call.blobs[i].size);
    pipeline.add_set(redis_key(call.keys[i]), disk_header(call.keys[i], page), page, options);
  }
  Replies replies(pages.size());
  bool going = trip(line, pipeline, replies);
  for (size_t j = 0; j < pages.size(); ++j) {
    const RedisReply& reply = replies[j];
    const bool kept = reply.type == Type::kNil;  // by another machine, since the question
    going = (kept || is_expected(line, reply, Type::kStatus, Command::kWrite)) && going;
    queue_.complete(call, pages[j],
                    kept                          ? Outcome::kKept
                    : reply.type == Type::kStatus ? Outcome::kStored
                                                  : Outcome::kNotStored);
  }
  return going;
}

bool RedisTier::trip(Line& line, const RedisPipeline& pipeline, std::span<RedisReply> replies) {
  if (replies.empty()) return true;
  const Deadline deadline = StoreGate::Clock::now() + options_.command_timeout;
  return line.connection.exchange(pipeline, replies, deadline) ||
         broken(line, line.connection.failure());
}

bool RedisTier::is_expected(Line& line, const RedisReply& reply, Type type, Command command) {
  // What has not come belongs to a trip that failed, which has been told.
  if (reply.type == type || reply.type == Type::kNone) return true;
  if (reply.type != Type::kError) return broken(line, "answers with a reply of another type");
  static constexpr std::string_view kWriting[] = {"OOM", "READONLY", "MISCONF", "NOREPLICAS",
                                                  "NOPERM"};
  const std::string_view word = first_word(reply.text);
  const std::string text = "answers " + quote(reply.text, 200);
  const bool writing_only =
      command == Command::kWrite &&
      std::find(std::begin(kWriting), std::end(kWriting), word) != std::end(kWriting);
  if (word != "WRONGTYPE" && !writing_only) return broken(line, text);
  queue_.count([](TierStats& s) { ++s.errors; });
  complain(word, text);
  if (writing_only)
    writable_again_.store(
        now_ns() + std::chrono::duration_cast<std::chrono::nanoseconds>(options_.pause).count(),
        std::memory_order_relaxed);
  return true;
}

bool RedisTier::broken(Line& line, std::string_view why) {
  queue_.count([](TierStats& s) { ++s.errors; });
  if (gate_.failed(line.age)) complain(why, cat(why, "; every page is a miss until that is over"));
  line.connection.close();
  return false;
}

void RedisTier::complain(std::string_view kind, std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  const auto expired = [&](const auto& c) { return now - c.second >= std::chrono::minutes(1); };
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(complaints_, expired);
    if (complaints_.size() >= kMaxComplaints) return;
    if (!complaints_.emplace(kind, now).second) return;
  }
  log_message(LogLevel::kWarning, cat("cache store ", address_.display(), " ", text));
}

}  // namespace prefix
