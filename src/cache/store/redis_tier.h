// Pages in a Redis server, for several machines.
//
//   key    prefix:page:1:3fa9...c2     64 digits of the page's key; 1 is the version of this layout
//   value  [ header | page ]           as in a file of the disk tier (cache/disk_format.h)
//
//   exists  EXISTS k0, EXISTS k1, ...                                        one trip
//   get     GETRANGE k0, PEXPIRE k0, GETRANGE k1, ... ─> verify              one trip, then DEL
//   put     STRLEN k0, PEXPIRE k0, STRLEN k1, ... ─> SET NX PX the absent    two trips
//
// - GETRANGE asks for one byte more than a page has, so that a longer value is noticed, and never
//   read to its end. PEXPIRE is a command of its own, not GETEX, so that reads work with servers
//   before 6.2 and with replicas, which do not write.
// - What does not verify is a miss. It is deleted only if it begins as our pages do; anything else
//   under our key is a mistake, and not ours to delete or to overwrite.
// - A page that is there is not sent again: machines that compute the same prefix agree on bytes.
// - A checksum finds damage, not malice. Write access to the server decides what the model says,
//   and read access shows what it was asked.
//
// Time: once the server stops answering, the thread that waits for it gives up after
// connect_timeout + command_timeout at most; from then on every page is a miss at once
// (store_gate.h). While it answers, a trip takes command_timeout at most, and a ticket as many
// trips as its pages and those before it need; a caller that does not want to wait cancels, and
// waits for one trip.
//
// An error of the server is a miss; LOADING, NOAUTH, MOVED and whatever else is about more than one
// key count as not answering; OOM, READONLY and the like stop writing for the pause and let reading
// go on; WRONGTYPE is about one key. Each kind of failure is logged once a minute.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/redis_connection.h"
#include "cache/store/redis_url.h"
#include "cache/store/store_gate.h"
#include "cache/store_plugin.h"
#include "cache/tier.h"
#include "cache/tier_queue.h"

namespace prefix {

// Of stats(), pages, bytes and evicted stay zero: the server knows, and others use it too.
class RedisTier final : public Tier {
 public:
  // Connects to nothing yet.
  RedisTier(RedisAddress address, const StoreOptions& options);
  ~RedisTier() override;

  TicketPtr exists(std::span<const PageKey> keys) noexcept override;
  TicketPtr get(std::span<const PageKey> keys,
                std::span<const PageBuffer> buffers) noexcept override;
  TicketPtr put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept override;
  TierStats stats() const noexcept override;

 private:
  using Outcome = TierQueue::Outcome;
  using Replies = std::vector<RedisReply>;
  struct Line;  // a connection, for the time of a call

  enum class Command { kRead, kWrite };

  void work(TierCall& call, size_t first, size_t count);
  std::unique_ptr<Line> take_line();
  void give_back(std::unique_ptr<Line> line);
  void probe();
  // All of these return false when the server is not to be asked any more.
  bool connect(Line& line);
  bool exists_pages(Line& line, TierCall& call, size_t first, size_t end);
  bool get_pages(Line& line, TierCall& call, size_t first, size_t end);
  bool put_pages(Line& line, TierCall& call, size_t first, size_t end);
  bool write_pages(Line& line, TierCall& call, std::span<const size_t> pages);
  bool remove_damaged(Line& line, std::span<const std::string> keys);
  bool trip(Line& line, const RedisPipeline& pipeline, std::span<RedisReply> replies);
  // Judges a reply of another type, and above all an error.
  bool is_expected(Line& line, const RedisReply& reply, RedisReply::Type type, Command command);
  bool broken(Line& line, std::string_view why);
  bool refreshing() const;
  bool writing() const;
  bool leaving(const TierCall& call) const { return stop_ || call.ticket.cancelled(); }
  // Logs unless that was done within the last minute.
  void complain(std::string_view kind, std::string_view text);

  const RedisAddress address_;
  const StoreOptions options_;
  const std::string time_to_live_;  // in milliseconds, as a command wants it
  StoreGate gate_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> writable_again_{0};  // steady clock, nanoseconds

  std::mutex mutex_;  // of the two below
  std::vector<std::unique_ptr<Line>> idle_;
  std::map<std::string, std::chrono::steady_clock::time_point, std::less<>> complaints_;

  TierQueue queue_;  // the last member: its threads use the others
};

}  // namespace prefix
