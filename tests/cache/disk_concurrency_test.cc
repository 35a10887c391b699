// Many threads on tiers that share a folder too small for all the pages: pages come and go under
// everybody's feet. What is served is right, and in the end the counts add up.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "disk_support.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr size_t kPage = 2000;
constexpr uint64_t kFile = kPage + kDiskHeader;

struct Asked {
  std::atomic<uint64_t> gets{0};
  std::atomic<uint64_t> puts{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> wrong{0};
};

// Batches of random pages; some tickets are cancelled, some are let go of, some are waited for.
void use(Tier& tier, unsigned seed, int rounds, uint64_t pages, Asked* asked) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const size_t n = 1 + random() % 6;
    std::vector<uint64_t> numbers;
    std::vector<PageKey> keys;
    for (size_t i = 0; i < n; ++i) {
      numbers.push_back(random() % pages);
      keys.push_back(key_of(numbers.back()));
    }
    const unsigned fate = random() % 4;
    TicketPtr ticket;
    std::vector<PageBuffer> buffers;
    if (random() % 3 == 0) {
      std::vector<PageBlob> blobs;
      for (const uint64_t number : numbers) blobs.push_back(blob_of(page_of(number, kPage)));
      ticket = tier.put(keys, blobs);
      asked->puts += n;
    } else if (random() % 8 == 0) {
      ticket = tier.exists(keys);
    } else {
      for (size_t i = 0; i < n; ++i) buffers.push_back(buffer_of(kPage));
      ticket = tier.get(keys, buffers);
      asked->gets += n;
    }
    (void)tier.stats();
    if (fate == 0) ticket->cancel();
    if (fate == 1) continue;  // ticket and buffers go while the tier is at it
    while (!ticket->done()) ticket->wait_for(std::chrono::milliseconds(1));
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!ticket->hit(i)) continue;
      ++asked->hits;
      const std::vector<std::byte> page = page_of(numbers[i], kPage);
      if (std::memcmp(page.data(), buffers[i].data.get(), kPage) != 0) ++asked->wrong;
    }
  }
}

// Waits for what was let go of.
TierStats settled(const Tier& tier, uint64_t gets, uint64_t puts) {
  for (;;) {
    const TierStats s = tier.stats();
    if (s.hits + s.misses == gets && s.stored + s.kept + s.not_stored == puts) return s;
    std::this_thread::yield();
  }
}

TEST(DiskConcurrency, OneTierManyThreads) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTierOptions options = options_for(cache, 40 * kFile);
  options.queue.threads = 4;
  DiskTier tier(options);
  Asked asked;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { use(tier, i, cases(2000), 80, &asked); });
  for (std::thread& thread : threads) thread.join();
  const TierStats s = settled(tier, asked.gets, asked.puts);
  EXPECT_EQ(asked.wrong, 0u);
  EXPECT_GT(asked.hits, 0u);
  EXPECT_EQ(s.errors, 0u);
  EXPECT_EQ(s.damaged, 0u);
  EXPECT_LE(s.bytes, 40 * kFile);
  if (!quick()) {
    EXPECT_GT(s.evicted, 0u);
  }
  expect_exact(tier, cache);  // nobody else was there: to the byte
}

TEST(DiskConcurrency, ThreeTiersOneFolder) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTierOptions options = options_for(cache, 40 * kFile);
  std::vector<std::unique_ptr<DiskTier>> tiers;
  std::vector<std::unique_ptr<Asked>> asked;
  for (int i = 0; i < 3; ++i) {
    tiers.push_back(std::make_unique<DiskTier>(options));
    asked.push_back(std::make_unique<Asked>());
  }
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 6; ++i)
    threads.emplace_back(
        [&, i] { use(*tiers[i % 3], 100 + i, cases(1000), 80, asked[i % 3].get()); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 3; ++i) {
    const TierStats s = settled(*tiers[i], asked[i]->gets, asked[i]->puts);
    EXPECT_EQ(asked[i]->wrong, 0u);
    EXPECT_EQ(s.errors, 0u);
    EXPECT_EQ(s.damaged, 0u);
  }
  tiers.clear();
  DiskTier after(options);
  expect_exact(after, cache);
  EXPECT_LE(after.stats().bytes, 40 * kFile);
}

// Tiers that come, look through the folder for leftovers, and go, beside one that writes.
TEST(DiskConcurrency, StartsDoNotDisturbAWriter) {
  const TempFolder folder;
  DiskTierOptions options = options_for(folder / "cache");
  DiskTier writer(options);
  std::atomic<bool> stop{false};
  std::thread starter([&] {
    while (!stop) DiskTier other(options);
  });
  for (uint64_t i = 0; i < static_cast<uint64_t>(cases(2000)); ++i)
    EXPECT_TRUE(put(writer, i, 100)) << i;
  stop = true;
  starter.join();
  EXPECT_EQ(writer.stats().errors, 0u);
}

TEST(DiskConcurrency, ATierGoesWhileItIsBusy) {
  const TempFolder folder;
  for (int round = 0; round < cases(100); ++round) {
    std::vector<TicketPtr> tickets;
    std::vector<PageBuffer> buffers;
    {
      DiskTier tier(options_for(folder / "cache"));
      for (uint64_t i = 0; i < 20; ++i) {
        const PageKey key = key_of(i);
        const PageBlob blob = blob_of(page_of(i, kPage));
        tickets.push_back(tier.put({&key, 1}, {&blob, 1}));
        buffers.push_back(buffer_of(kPage));
        tickets.push_back(tier.get({&key, 1}, {&buffers.back(), 1}));
      }
    }
    for (size_t i = 0; i < tickets.size(); ++i) {
      ASSERT_TRUE(tickets[i]->done());
      if (i % 2 == 1 && tickets[i]->hit(0)) {
        ASSERT_EQ(std::memcmp(buffers[i / 2].data.get(), page_of(i / 2, kPage).data(), kPage), 0);
      }
    }
  }
}

// It may be of a path of any length. What waits behind it tells when the tier is going: that is
// settled before the page in work is waited for.
TEST(DiskConcurrency, AUseIsCutShortWhenTheTierGoes) {
  const TempFolder folder;
  std::promise<void> begun;
  std::promise<TicketPtr> behind;
  std::atomic<int> looks{0};
  DiskTierOptions options = options_for(folder / "cache");
  options.queue.threads = 1;
  options.fault = [&, waits = behind.get_future().share()](DiskCall call) {
    if (call != DiskCall::kLook || looks++ > 0) return 0;
    begun.set_value();
    finish(waits.get());
    return 0;
  };
  std::vector<PageKey> keys;
  for (uint64_t i = 0; i < 100; ++i) keys.push_back(key_of(i));
  const PageBlob blob = blob_of(page_of(100, kPage));
  TicketPtr use;
  {
    DiskTier tier(std::move(options));
    use = tier.use(keys);
    behind.set_value(tier.put({keys.data(), 1}, {&blob, 1}));
    begun.get_future().wait();
  }
  EXPECT_TRUE(use->done());
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace prefix
