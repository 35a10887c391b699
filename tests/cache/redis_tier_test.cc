// Pages in a real Redis server: what is put is what comes back, in few trips, for all who share the
// server, and for as long as it is used.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis_support.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr size_t kPage = 5000;

TEST(RedisTier, PagesOfManySizesComeBack) {
  NEEDS_REDIS();
  const RedisServer server;
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  size_t total = 0;
  for (const size_t size : {1u, 7u, 88u, 1000u, 16384u, 100'000u, 3'000'000u}) {
    const size_t count = size > 1'000'000 ? 20 : 200;
    const Pages pages(1000 * size, count, size);
    EXPECT_EQ(get_all(*tier, pages), 0u);
    EXPECT_EQ(exist_all(*tier, pages), 0u);
    EXPECT_EQ(put_all(*tier, pages), count);
    EXPECT_EQ(exist_all(*tier, pages), count);
    EXPECT_EQ(get_all(*tier, pages), count) << size;
    total += count;
  }
  const TierStats s = tier->stats();
  EXPECT_EQ(s.stored, total);
  EXPECT_EQ(s.hits, total);
  EXPECT_EQ(s.misses, total);
  EXPECT_EQ(s.errors + s.damaged + s.refused, 0u);
}

TEST(RedisTier, WhatIsThereIsNotSentAgain) {
  NEEDS_REDIS();
  const RedisServer server;
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  const Pages pages(0, 20, kPage);
  EXPECT_EQ(put_all(*tier, pages), 20u);
  EXPECT_EQ(put_all(*tier, Pages(10, 20, kPage)), 20u);  // half of them new
  EXPECT_EQ(tier->stats().stored, 30u);
  EXPECT_EQ(tier->stats().kept, 10u);
  EXPECT_EQ(server.info("commandstats", "cmdstat_set:calls"), 30u);
  EXPECT_EQ(server.ask({"DBSIZE"}), "30");
  EXPECT_EQ(server.ask({"STRLEN", redis_key(0)}), cat(kPage + kDiskHeader));
}

TEST(RedisTier, ManyPagesAreOneTrip) {
  NEEDS_REDIS();
  const RedisServer server;
  StoreOptions options = patient();
  options.queue.threads = 1;
  options.queue.run = 64;
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  constexpr size_t kPages = 640;
  const Pages pages(0, kPages, 100);
  EXPECT_EQ(put_all(*tier, pages), kPages);
  const auto commands = [&](const char* name) {
    return server.info("commandstats", cat("cmdstat_", name, ":calls"));
  };
  const auto reads = [&] { return server.info("stats", "total_reads_processed"); };
  const uint64_t before = reads();
  EXPECT_EQ(get_all(*tier, pages), kPages);
  EXPECT_EQ(exist_all(*tier, pages), kPages);
  EXPECT_EQ(commands("getrange"), kPages);
  EXPECT_EQ(commands("exists"), kPages);
  // Ten trips each; the server may read one in several pieces.
  EXPECT_LT(reads() - before, 2 * kPages / 8);
  EXPECT_EQ(commands("ping"), 1u);  // one connection
}

TEST(RedisTier, ATripIsBoundedInBytes) {
  NEEDS_REDIS();
  const RedisServer server;
  StoreOptions options = patient();
  for (const uint64_t bytes : {0ull, 1ull, 10'000ull, 50'000ull}) {
    options.trip_bytes = bytes;
    const std::unique_ptr<Tier> tier = open_store(server.url(), options);
    const Pages pages(1000 * bytes, 50, kPage);
    // The server reads once for a trip at least.
    const auto reads = [&] { return server.info("stats", "total_reads_processed"); };
    const uint64_t before = reads();
    EXPECT_EQ(put_all(*tier, pages), 50u);
    const uint64_t between = reads();
    EXPECT_EQ(get_all(*tier, pages), 50u);
    if (bytes <= 1) {  // a page each
      EXPECT_GE(between - before, 50u);
      EXPECT_GE(reads() - between, 50u);
    } else if (bytes >= 50'000) {
      EXPECT_LT(between - before, 50u);
      EXPECT_LT(reads() - between, 50u);
    }
  }
}

TEST(RedisTier, TiersShareAServer) {
  NEEDS_REDIS();
  const RedisServer server;
  const std::unique_ptr<Tier> one = open_store(server.url(), patient());
  const std::unique_ptr<Tier> other = open_store(server.url(), patient());
  EXPECT_EQ(put_all(*one, Pages(0, 100, kPage)), 100u);
  EXPECT_EQ(get_all(*other, Pages(50, 100, kPage)), 50u);
  EXPECT_EQ(put_all(*other, Pages(50, 100, kPage)), 100u);
  EXPECT_EQ(other->stats().kept, 50u);
  EXPECT_EQ(get_all(*one, Pages(0, 150, kPage)), 150u);
}

TEST(RedisTier, ManyThreadsManyTiers) {
  NEEDS_REDIS();
  const RedisServer server;
  StoreOptions options = patient();
  options.queue.threads = 3;
  const std::unique_ptr<Tier> tiers[] = {open_store(server.url(), options),
                                         open_store(server.url(), options)};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Tier& tier = *tiers[t % 2];
      for (int i = 0; i < cases(40); ++i) {
        const Pages pages((t * 37 + static_cast<uint64_t>(i) * 11) % 200, 20, kPage);
        (void)get_all(tier, pages);
        EXPECT_EQ(put_all(tier, pages), 20u);
        EXPECT_EQ(get_all(tier, pages), 20u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& tier : tiers) {
    const TierStats s = tier->stats();
    EXPECT_EQ(s.errors + s.damaged + s.refused, 0u);
  }
}

TEST(RedisTier, PagesThatAreUsedStay) {
  NEEDS_REDIS();
  const RedisServer server;
  StoreOptions options = patient();
  options.time_to_live = std::chrono::hours(1);
  const std::unique_ptr<Tier> tier = open_store(server.url(), options);
  const Pages page(1, 1, kPage);
  const auto left = [&] { return std::stoll(server.ask({"PTTL", redis_key(1)})); };
  EXPECT_EQ(put_all(*tier, page), 1u);
  EXPECT_GT(left(), 3'000'000);
  EXPECT_LE(left(), 3'600'000);
  for (const bool by_put : {false, true}) {
    EXPECT_EQ(server.ask({"PEXPIRE", redis_key(1), "600000"}), "1");
    EXPECT_EQ(by_put ? put_all(*tier, page) : get_all(*tier, page), 1u);
    EXPECT_GT(left(), 3'000'000);
  }
  EXPECT_EQ(server.ask({"PEXPIRE", redis_key(1), "0"}), "1");  // its time is over
  EXPECT_EQ(exist_all(*tier, page), 0u);
  EXPECT_EQ(get_all(*tier, page), 0u);
  EXPECT_EQ(put_all(*tier, page), 1u);

  options.time_to_live = std::chrono::milliseconds(0);
  EXPECT_EQ(put_all(*open_store(server.url(), options), Pages(2, 1, kPage)), 1u);
  EXPECT_EQ(server.ask({"PTTL", redis_key(2)}), "-1");
}

TEST(RedisTier, APageLivesADayAfterEveryUse) {
  NEEDS_PLUGIN();
  HonestRedis honest;
  std::mutex mutex;
  Words lives;  // in milliseconds, with the commands that give them
  FakeRedis server([&](const Words& command) {
    const std::lock_guard lock(mutex);
    if (command[0] == "SET" || command[0] == "PEXPIRE")
      lives.push_back(command[0] + " " + command.back());
    return honest.answer(command);
  });
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  const Pages page(1, 1, kPage);
  EXPECT_EQ(put_all(*tier, page), 1u);
  const auto take = [&] {
    const std::lock_guard lock(mutex);
    return std::exchange(lives, {});
  };
  EXPECT_EQ(take(), (Words{"PEXPIRE 86400000", "SET 86400000"}));
  EXPECT_EQ(get_all(*tier, page), 1u);
  EXPECT_EQ(take(), Words{"PEXPIRE 86400000"});
  EXPECT_EQ(put_all(*tier, page), 1u);
  EXPECT_EQ(take(), Words{"PEXPIRE 86400000"});
}

TEST(RedisTier, ChoosesTheDatabase) {
  NEEDS_REDIS();
  const RedisServer server;
  // unix:// has no database, so by a port; 16 databases by default.
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(s, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(s, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(s);
  const std::string port = cat(ntohs(address.sin_port));
  ASSERT_EQ(server.ask({"CONFIG", "SET", "port", port}), "OK");
  messages();
  const Pages pages(0, 30, 100'000);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const std::unique_ptr<Tier> tier =
        open_store(cat("redis://", host, ":", port, "/3"), patient());
    EXPECT_EQ(put_all(*tier, pages), 30u);
    EXPECT_EQ(get_all(*tier, pages), 30u) << host;
  }
  EXPECT_EQ(server.ask({"DBSIZE"}), "0");
  EXPECT_NE(server.ask({"INFO", "keyspace"}).find("db3:keys=30"), std::string::npos);
  EXPECT_EQ(all_messages(), "");
  const std::unique_ptr<Tier> tier = open_store("redis://127.0.0.1:" + port + "/99", patient());
  EXPECT_EQ(put_all(*tier, pages), 0u);
  EXPECT_NE(all_messages().find("answers SELECT with \"ERR DB index is out of range\""),
            std::string::npos);
  // A name that does not exist, without a network too.
  EXPECT_EQ(put_all(*open_store("redis://no-such-host.invalid", patient()), pages), 0u);
  EXPECT_NE(all_messages().find("cannot be reached: its name"), std::string::npos);
}

TEST(RedisTier, LogsIn) {
  NEEDS_REDIS();
  const RedisServer server(
      {"--requirepass", "open/sesame", "--user", "ann", "on", ">p@ss:w%rd", "~*", "+@all"});
  const Pages pages(0, 5, kPage);
  const auto url = [&](const std::string& login) { return "unix://" + login + server.path(); };
  EXPECT_EQ(put_all(*open_store(url(":open%2Fsesame@"), patient()), pages), 5u);
  EXPECT_EQ(get_all(*open_store(url("default:open%2fsesame@"), patient()), pages), 5u);
  EXPECT_EQ(get_all(*open_store(url("ann:p%40ss%3Aw%25rd@"), patient()), pages), 5u);
  messages();
  for (const char* login : {":sekrit@", "ann:sekrit@", "bob:sekrit@"}) {
    EXPECT_EQ(get_all(*open_store(url(login), patient()), pages), 0u);
    const std::string text = all_messages();
    EXPECT_NE(text.find("answers AUTH with \"WRONGPASS\""), std::string::npos) << text;
    EXPECT_EQ(text.find("sekrit"), std::string::npos) << text;
  }
  EXPECT_EQ(get_all(*open_store(url(""), patient()), pages), 0u);
  EXPECT_NE(all_messages().find("NOAUTH"), std::string::npos);
}

TEST(RedisTier, MissingBuffersAreMisses) {
  NEEDS_REDIS();
  const RedisServer server;
  const std::unique_ptr<Tier> tier = open_store(server.url(), patient());
  const Pages pages(0, 4, kPage);
  EXPECT_EQ(put_all(*tier, pages), 4u);
  const TicketPtr got = tier->get(pages.keys, std::span(pages.buffers).first(2));
  finish(got);
  EXPECT_EQ(hits(got), 2u);
  const TicketPtr kept = tier->put(pages.keys, std::span(pages.blobs).first(1));
  finish(kept);
  EXPECT_EQ(hits(kept), 1u);
  finish(tier->get({}, {}));
  // A buffer of another size.
  EXPECT_EQ(get_all(*tier, Pages(0, 4, kPage - 1)), 0u);
}

TEST(RedisTier, NothingWithoutThePlugin) {
  const TempFolder folder;
  StoreOptions options;
  if (no_plugin().empty()) {
    EXPECT_NE(open_store("redis://host", options), nullptr);
    options.command_timeout = std::chrono::milliseconds(0);
    testing_support::expect_error(Code::kOutOfRange, {"command_timeout", "0 ms"},
                                  [&] { open_store("redis://host", options); });
  } else {
    testing_support::expect_error(Code::kNotFound, {"libprefix_redis.so"},
                                  [&] { open_store("redis://host", options); });
  }
  testing_support::expect_error(Code::kInvalidArgument, {"redis://", "unix://"},
                                [&] { open_store("http://host", options); });
}

}  // namespace
}  // namespace prefix
