// A server that fails in every way we could think of: each failure is a miss, no page is ever
// wrong, every ticket is done in the time that was promised, the reason is logged once, and the
// tier works again when the server does.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "redis_support.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr size_t kPage = 5000;

// hasty() promises 0.3 seconds. Machines that run tests may be slow, and a minute is still far from
// what a wait without a limit would be.
void finish_in_time(const TicketPtr& ticket) {
  EXPECT_TRUE(ticket->wait_for(std::chrono::minutes(1))) << "the promised time is over";
}

// A fake server that is honest until the test says otherwise.
class Switched {
 public:
  using Fault = std::function<FakeRedis::Reply(const Words& command, const std::string& honest)>;

  Switched()
      : fake_([this](const Words& command) {
          const std::lock_guard lock(mutex_);
          const std::string honest = honest_.answer(command);
          return fault_ ? fault_(command, honest) : FakeRedis::Reply(honest);
        }) {}
  void set(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }
  FakeRedis& operator*() { return fake_; }
  FakeRedis* operator->() { return &fake_; }

 private:
  std::mutex mutex_;
  HonestRedis honest_;
  Fault fault_;
  FakeRedis fake_;
};

// Without a pause, a call after a failure begins to ask whether the server works, and does not wait
// for it. So calls are misses for some moments more, however many those are.
void wait_until_it_works(Tier& tier) {
  const auto start = std::chrono::steady_clock::now();
  const Pages page(123'456, 1, 10);
  while (put_all(tier, page) == 0)
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

// How many pages a call is right for: all of them, after some calls. Each thread of the tier has a
// connection of its own, which recovers by itself; and a server that works is too late for hasty()
// now and then where the machine is busy.
template <typename Call>
size_t at_last(Call call, Tier& tier, const Pages& pages) {
  const auto start = std::chrono::steady_clock::now();
  size_t done = 0;
  while ((done = call(tier, pages)) < pages.keys.size())
    if (std::chrono::steady_clock::now() - start > std::chrono::minutes(1)) break;
  return done;
}

void expect_recovery(Tier& tier, uint64_t first) {
  wait_until_it_works(tier);
  const Pages pages(first, 10, kPage);
  EXPECT_EQ(at_last(put_all, tier, pages), 10u);
  EXPECT_EQ(at_last(get_all, tier, pages), 10u);
  EXPECT_EQ(at_last(exist_all, tier, pages), 10u);
}

// A tier that has stored these pages and has not failed yet, which a pause would not forgive.
std::unique_ptr<Tier> tier_with(const Pages& pages, const std::string& url,
                                const StoreOptions& options) {
  std::unique_ptr<Tier> tier = open_store(url, options);
  const auto start = std::chrono::steady_clock::now();
  while (put_all(*tier, pages) < pages.keys.size()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::minutes(1)) {
      ADD_FAILURE() << "no tier stored all pages";
      break;
    }
    tier = open_store(url, options);
  }
  return tier;
}

size_t open_files() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST(RedisFailure, AnyReplyMayBeWrong) {
  NEEDS_PLUGIN();
  const std::vector<std::string> errors = {"LOADING Redis is loading the dataset in memory",
                                           "OOM command not allowed",
                                           "READONLY You",
                                           "MOVED 3999 127.0.0.1:6381",
                                           "NOAUTH Authentication required.",
                                           "WRONGTYPE Operation",
                                           "MISCONF Redis is configured",
                                           "NOPERM this user has",
                                           "BUSY script",
                                           "",
                                           "ERR"};
  const std::vector<std::string> types = {":5\r\n",
                                          "+hello\r\n",
                                          "$-1\r\n",
                                          "*0\r\n",
                                          "*2\r\n:1\r\n:2\r\n",
                                          "*-1\r\n",
                                          "$5\r\nhello\r\n",
                                          "$0\r\n\r\n",
                                          ":-1\r\n",
                                          ",1.5\r\n",
                                          "*1\r\n*1\r\n*1\r\n*1\r\n",
                                          "#t\r\n",
                                          "_\r\n"};
  constexpr uint64_t kFaults = 100;  // of each server
  uint64_t hits_among_faults = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(cases(20)); ++seed) {
    SCOPED_TRACE(seed);
    Switched server;
    StoreOptions options = hasty();
    options.queue.run = 1 + seed % 7;
    options.queue.threads = 1 + static_cast<int>(seed % 3);
    const std::unique_ptr<Tier> tier = open_store(server->url(), options);
    std::mt19937 random(seed);  // under the lock of the server
    std::atomic<uint64_t> faults = 0;
    server.set([&](const Words&, const std::string& honest) -> FakeRedis::Reply {
      if (random() % 10 != 0) return honest;
      ++faults;
      std::string bytes = honest;
      switch (random() % 9) {
        case 0:
          return "-" + errors[random() % errors.size()] + "\r\n";
        case 1:
          return types[random() % types.size()];
        case 2:  // breaks off within a reply
          return {honest.substr(0, random() % honest.size()), true};
        case 3:
          return {"", true};
        case 4:
          return honest + honest;  // all that follow are one too late
        case 5:
          for (char& c : bytes) c = static_cast<char>(random());
          return {bytes + "\r\n", true};
        case 6:  // one bit, behind the length of a value if there is one
          bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1 << random() % 7);
          return bytes;
        case 7: {  // another page's value, or one with another page's bytes
          const std::string value = value_of(random() % 40, kPage);
          return cat('$', value.size(), "\r\n", value, "\r\n");
        }
        default:  // does not answer, or with a length that never comes; rare, for it takes time
          if (random() % 20 != 0) return honest;
          return random() % 2 ? std::string() : "$100000000\r\n" + bytes;
      }
    });
    // A connection that was broken is left alone for a time, in which there is nothing to go wrong.
    for (int step = 0; step < 200 || faults < kFaults; ++step) {
      const Pages pages(static_cast<uint64_t>(step * 7 % 31), 1 + static_cast<size_t>(step % 12),
                        kPage);
      const TicketPtr ticket = step % 5 == 0   ? tier->exists(pages.keys)
                               : step % 2 == 0 ? tier->put(pages.keys, pages.blobs)
                                               : tier->get(pages.keys, pages.buffers);
      finish_in_time(ticket);
      if (step % 5 != 0 && step % 2 != 0) hits_among_faults += pages.right(ticket);
    }
    server.set(nullptr);
    expect_recovery(*tier, 1000);
    const TierStats s = tier->stats();
    EXPECT_GT(s.errors, 0u);
    EXPECT_EQ(s.refused, 0u);
  }
  EXPECT_GT(hits_among_faults, 0u);
}

TEST(RedisFailure, EachErrorIsAMissAndLoggedOnce) {
  NEEDS_PLUGIN();
  for (const char* error :
       {"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down",
        "CLUSTERDOWN Hash slot not served", "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
        "NOAUTH Authentication required.", "NOPERM this user has no permissions", "ERR unknown",
        "READONLY You can't write", "OOM command not allowed", "MISCONF is configured to save",
        "NOREPLICAS Not enough good replicas", "BUSY Redis is busy", "WRONGTYPE Operation", ""}) {
    for (const bool at_login : {false, true}) {
      SCOPED_TRACE(error);
      Switched server;
      const std::unique_ptr<Tier> tier = open_store(server->url(), patient());
      const Pages pages(0, 10, kPage);
      if (!at_login) {
        EXPECT_EQ(put_all(*tier, pages), 10u);
      }
      messages();
      server.set([&](const Words& command, const std::string& honest) -> FakeRedis::Reply {
        if (!at_login && command[0] == "PING") return honest;
        return cat('-', error, "\r\n");
      });
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(get_all(*tier, pages), 0u);
        EXPECT_EQ(put_all(*tier, pages), 0u);
        EXPECT_EQ(exist_all(*tier, pages), 0u);
      }
      EXPECT_GT(tier->stats().errors, 0u);
      const std::vector<std::string> said = messages();
      // What goes on reading and what does not are two things to say.
      ASSERT_TRUE(said.size() == 1 || said.size() == 2) << said.size();
      EXPECT_NE(said[0].find(error), std::string::npos) << said[0];
      EXPECT_NE(said[0].find(server->path()), std::string::npos) << said[0];
      server.set(nullptr);
      expect_recovery(*tier, 0);
    }
  }
}

TEST(RedisFailure, ADeadServerCostsNothing) {
  NEEDS_PLUGIN();
  messages();
  FakeRedis fake([](const Words&) -> FakeRedis::Reply { return {"", true}; });
  StoreOptions options = patient();
  options.pause = std::chrono::hours(1);
  options.queue.threads = 1;
  for (const std::string& url : {fake.url(), std::string("unix:///no/such/socket")}) {
    const std::unique_ptr<Tier> tier = open_store(url, options);
    const Pages pages(0, 100, kPage);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(get_all(*tier, pages), 0u);
      EXPECT_EQ(put_all(*tier, pages), 0u);
      EXPECT_EQ(exist_all(*tier, pages), 0u);
    }
    EXPECT_EQ(tier->stats().errors, 1u);
    EXPECT_EQ(tier->stats().misses, 2000u);
    EXPECT_EQ(tier->stats().not_stored, 2000u);
    EXPECT_EQ(messages().size(), 1u);
  }
  EXPECT_EQ(fake.accepted(), 1);
}

// The call that begins a probe does not wait for it.
TEST(RedisFailure, NobodyWaitsForAProbe) {
  NEEDS_PLUGIN();
  auto server = std::make_unique<Switched>();
  StoreOptions options = patient();
  options.connect_timeout = std::chrono::minutes(1);
  options.queue.threads = 2;
  const std::unique_ptr<Tier> tier = open_store((*server)->url(), options);
  const Pages pages(0, 10, kPage);
  EXPECT_EQ(put_all(*tier, pages), 10u);
  std::atomic<bool> asked{false};
  server->set([&, failed = false](const Words& command,
                                  const std::string& honest) mutable -> FakeRedis::Reply {
    if (command[0] == "GETRANGE") {
      failed = true;
      return {"", true};
    }
    if (command[0] != "PING" || !failed) return honest;  // another thread may connect before
    asked = true;
    return std::string();  // and no answer ever
  });
  EXPECT_EQ(get_all(*tier, pages), 0u);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 || !asked; ++i) EXPECT_EQ(get_all(*tier, pages), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  server.reset();  // ends the probe
}

TEST(RedisFailure, DripsAndFloodsEndInTime) {
  NEEDS_PLUGIN();
  for (const bool drip : {true, false}) {
    Switched server;
    const Pages pages(0, 40, 50'000);
    const std::unique_ptr<Tier> tier = tier_with(pages, server->url(), hasty());
    if (drip) {
      server->drip();
    } else {
      server.set([](const Words&, const std::string&) -> FakeRedis::Reply {
        return "$100000000\r\n" + std::string(10'000'000, 'x');
      });
    }
    const TicketPtr got = tier->get(pages.keys, pages.buffers);
    finish_in_time(got);
    EXPECT_EQ(hits(got), 0u);
    EXPECT_GE(tier->stats().errors, 1u);
    EXPECT_LE(tier->stats().errors, 2u);  // one for each thread
  }
}

TEST(RedisFailure, KilledInTheMiddle) {
  NEEDS_REDIS();
  RedisServer server;
  StoreOptions options = hasty();
  options.queue.run = 8;
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  std::mt19937 random(3);
  size_t came = 0;
  size_t wanted = 0;
  for (int i = 0; i < cases(40); ++i) {
    SCOPED_TRACE(i);
    constexpr size_t kPages = 300;
    const Pages pages(0, kPages, 20'000);
    const Pages more(1000, kPages, 20'000);
    wait_until_it_works(*tier);
    ASSERT_EQ(at_last(put_all, *tier, pages), kPages);
    const TicketPtr got = tier->get(pages.keys, pages.buffers);
    const TicketPtr stored = tier->put(more.keys, more.blobs);
    const size_t moment = random() % kPages;
    const TicketPtr& watched = i % 2 ? got : stored;
    while (!watched->hit(moment) && !watched->done()) std::this_thread::yield();
    server.kill();
    finish_in_time(got);
    finish_in_time(stored);
    came += pages.right(got);
    wanted += kPages;
    const TicketPtr after = tier->get(pages.keys, pages.buffers);
    finish_in_time(after);
    EXPECT_EQ(hits(after), 0u);
    server.start();
  }
  EXPECT_GT(came, 0u);
  EXPECT_LT(came, wanted);
  expect_recovery(*tier, 9000);
}

TEST(RedisFailure, ARestartBetweenCallsIsNoFailure) {
  NEEDS_REDIS();
  RedisServer server;
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  const Pages pages(0, 50, kPage);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(put_all(*tier, pages), 50u);
    EXPECT_EQ(get_all(*tier, pages), 50u);
    server.kill();
    server.start();
  }
  EXPECT_EQ(tier->stats().errors, 0u);
}

TEST(RedisFailure, ComesBackAfterAPause) {
  NEEDS_REDIS();
  RedisServer server;
  StoreOptions options = patient();
  options.pause = std::chrono::milliseconds(1);
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  const Pages pages(0, 10, kPage);
  EXPECT_EQ(put_all(*tier, pages), 10u);
  server.kill();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get_all(*tier, pages), 0u);
  server.start();
  expect_recovery(*tier, 0);
}

TEST(RedisFailure, StoppedServer) {
  NEEDS_REDIS();
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(3'600'000)}) {
    const RedisServer server;
    StoreOptions options = hasty();
    options.pause = pause;
    const Pages pages(0, 200, kPage);
    const std::unique_ptr<Tier> tier = tier_with(pages, server.url(), options);
    server.send(SIGSTOP);
    std::vector<TicketPtr> tickets;
    for (int i = 0; i < 4; ++i) {
      tickets.push_back(tier->get(pages.keys, pages.buffers));
      tickets.push_back(tier->exists(pages.keys));
      tickets.push_back(tier->put(pages.keys, pages.blobs));
    }
    for (const TicketPtr& ticket : tickets) {
      finish_in_time(ticket);
      EXPECT_EQ(hits(ticket), 0u);
    }
    // One for each thread, or for each probe.
    if (pause.count() > 0) {
      EXPECT_LE(tier->stats().errors, 2u);
    }
    server.send(SIGCONT);
    if (pause.count() == 0) expect_recovery(*tier, 1000);
  }
}

TEST(RedisFailure, ATierCanGoWhileTheServerHangs) {
  NEEDS_REDIS();
  const RedisServer server;
  for (const bool connected : {false, true}) {
    const Pages pages(0, 500, kPage);
    std::vector<TicketPtr> tickets;
    {
      const std::unique_ptr<Tier> tier =
          connected ? tier_with(pages, server.url(), hasty()) : open_store(server.url(), hasty());
      server.send(SIGSTOP);
      tickets = {tier->get(pages.keys, pages.buffers), tier->put(pages.keys, pages.blobs)};
    }
    for (const TicketPtr& ticket : tickets) EXPECT_TRUE(ticket->done());
    server.send(SIGCONT);
  }
}

TEST(RedisFailure, SlowServer) {
  NEEDS_REDIS();
  const RedisServer server;
  const Pages pages(0, 100, kPage);
  const std::unique_ptr<Tier> tier = tier_with(pages, server.url(), hasty());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(server.ask({"CLIENT", "PAUSE", "1500", "ALL"}), "OK");
    const TicketPtr got = tier->get(pages.keys, pages.buffers);
    const TicketPtr stored = tier->put(pages.keys, pages.blobs);
    finish_in_time(got);
    finish_in_time(stored);
    (void)pages.right(got);
    EXPECT_EQ(server.ask({"PING"}), "PONG");  // after the pause of the server
    expect_recovery(*tier, 1000);
  }
  // Slow, but in time: nothing fails.
  StoreOptions options = patient();
  const std::unique_ptr<Tier> waits = open_store(server.url(), options);
  EXPECT_EQ(get_all(*waits, pages), 100u);
  ASSERT_EQ(server.ask({"CLIENT", "PAUSE", "300", "ALL"}), "OK");
  EXPECT_EQ(get_all(*waits, pages), 100u);
  EXPECT_EQ(waits->stats().errors, 0u);
}

TEST(RedisFailure, FullServer) {
  NEEDS_REDIS();
  const RedisServer server;
  StoreOptions options = patient();
  options.pause = std::chrono::hours(1);
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  const Pages pages(0, 20, 20'000);
  EXPECT_EQ(put_all(*tier, pages), 20u);
  ASSERT_EQ(server.ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"}), "OK");
  ASSERT_EQ(server.ask({"CONFIG", "SET", "maxmemory", "1mb"}), "OK");
  messages();
  const Pages more(100, 20, 20'000);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(put_all(*tier, more), 0u);
    EXPECT_EQ(get_all(*tier, pages), 20u);  // reading goes on
  }
  // Nothing is written in the pause; the first trip was on its way.
  EXPECT_LE(tier->stats().errors, 20u);
  EXPECT_NE(all_messages().find("OOM"), std::string::npos);
  EXPECT_EQ(messages().size(), 0u);

  options.pause = std::chrono::milliseconds(0);
  const std::unique_ptr<Tier> other = open_store(server.url(), options);
  EXPECT_EQ(put_all(*other, more), 0u);
  ASSERT_EQ(server.ask({"CONFIG", "SET", "maxmemory", "0"}), "OK");
  EXPECT_EQ(put_all(*other, more), 20u);
}

TEST(RedisFailure, ReadOnlyServer) {
  NEEDS_REDIS();
  const RedisServer server;
  const Pages pages(0, 20, kPage);
  EXPECT_EQ(put_all(*open_store(server.url(), patient()), pages), 20u);
  // A replica that has lost its master before it found it serves what it has.
  ASSERT_EQ(server.ask({"REPLICAOF", "127.0.0.1", "1"}), "OK");
  StoreOptions options = patient();
  options.pause = std::chrono::hours(1);
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(get_all(*tier, pages), 20u);
    EXPECT_EQ(put_all(*tier, Pages(100, 20, kPage)), 0u);
  }
}

TEST(RedisFailure, NoFileStaysOpen) {
  NEEDS_PLUGIN();
  (void)open_store("unix:///no/such/socket", hasty());
  const size_t before = open_files();
  for (int i = 0; i < cases(30); ++i) {
    Switched server;
    const std::unique_ptr<Tier> tier = open_store(server->url(), hasty());
    server.set([n = 0](const Words&, const std::string& honest) mutable -> FakeRedis::Reply {
      return {honest, ++n % 5 == 0};
    });
    for (int k = 0; k < 10; ++k) (void)put_all(*tier, Pages(0, 5, kPage));
  }
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace prefix
