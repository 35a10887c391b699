// Engines that share pages through a Redis server: the same bits, whatever becomes of the server.
#include "../cache/redis_support.h"
#include "tier_support.h"

namespace prefix {
namespace {

using namespace testing_support;

std::shared_ptr<Engine> open_over_store(const std::string& url, const EngineOptions& more = {}) {
  EngineOptions options = more;
  options.emplace("cache_store", url);
  return open_over("", 24, options);
}

// Runs a random choice of the requests, some together, and checks each.
void run_some(Engine& engine, const KnownRequests& known, std::mt19937& random, int count) {
  for (int done = 0; done < count;) {
    std::vector<RequestSpec> batch;
    std::vector<size_t> chosen;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      chosen.push_back(random() % known.requests.size());
      batch.push_back(known.requests[chosen.back()]);
    }
    const auto job = run_all(engine, std::move(batch));
    for (size_t i = 0; i < chosen.size(); ++i) known.check(job->result(i), chosen[i]);
    done += static_cast<int>(chosen.size());
  }
}

TEST(Store, WarmEqualsColdOnTwoMachinesAndOverRestarts) {
  NEEDS_REDIS();
  RedisServer server;
  std::mt19937 random(61);
  const KnownRequests known(random, 120);
  int64_t fetched = 0;
  int engines = 0;
  for (int done = 0; done < cases(3000); done += 60, ++engines) {
    const auto one = open_over_store(server.url());
    const auto other = open_over_store(server.url());
    run_some(*one, known, random, 30);
    run_some(*other, known, random, 30);
    fetched += one->stats().fetched_tokens + other->stats().fetched_tokens;
  }
  EXPECT_GT(fetched, cases(3000));
  std::printf("%d pairs of engines, %lld tokens from the store\n", engines,
              static_cast<long long>(fetched));
}

TEST(Store, ResultsAreTheSameWhileTheServerIsKilledStoppedFullAndLyingAbout) {
  NEEDS_REDIS();
  RedisServer server({"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"});
  std::mt19937 random(67);
  const KnownRequests known(random, 60);
  const auto spoil = [&] {
    const std::string key = server.ask({"RANDOMKEY"});
    if (key == "(nil)" || key.starts_with("(")) return;
    switch (random() % 4) {
      case 0:
        server.ask({"SETRANGE", key, std::to_string(random() % 1000), "x"});
        break;
      case 1:
        server.ask({"SET", key, "something else"});
        break;
      case 2:
        server.ask({"DEL", key});
        server.ask({"LPUSH", key, "a", "b"});
        break;
      default:
        server.ask({"FLUSHALL"});
    }
  };
  int64_t fetched = 0;
  for (int round = 0; round < cases(60); ++round) {
    const auto engine = open_over_store(server.url(), {{"cache_fetch_ms", "50"}});
    for (int part = 0; part < 6; ++part) {
      run_some(*engine, known, random, 6);
      switch (random() % 8) {
        case 0:
          server.kill();
          run_some(*engine, known, random, 6);
          server.start();
          break;
        case 1:
          server.send(SIGSTOP);
          run_some(*engine, known, random, 6);
          server.send(SIGCONT);
          break;
        default:
          spoil();
      }
    }
    fetched += engine->stats().fetched_tokens;
  }
  EXPECT_GT(fetched, 0);
  std::printf("%lld tokens from the store\n", static_cast<long long>(fetched));
}

TEST(Store, AStoreThatIsNotThereOrUnknownIsSaidOrMissed) {
  NEEDS_PLUGIN();
  std::mt19937 random(71);
  const KnownRequests known(random, 20);
  run_some(*open_over_store("unix:///nobody/is/here"), known, random, 40);
  EXPECT_THROW(open_over_store("memcached://here"), Error);
  EXPECT_THROW(open_over("", 24, {{"cache_store", "unix:///x"}, {"cache", "false"}}), Error);
}

}  // namespace
}  // namespace prefix
