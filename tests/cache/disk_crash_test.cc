// A process that is killed (SIGKILL) while it puts and evicts pages, at every call of the system in
// turn, writes half done: whatever the folder holds afterwards, the next process serves right pages
// or none.
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "disk_support.h"
#include "support/child_process.h"
#include "support/temp_folder.h"
#include "system_calls.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr uint64_t kPages = 64;
constexpr uint64_t kCap = 600 << 10;  // some half of them

size_t size_of(uint64_t number) { return 4000 + number * 521 % 30000; }

// In the child; it ends at call number `end`, or by itself.
int put_some(const std::string& cache, unsigned seed, int end) {
  std::mt19937 random(seed);
  SystemCalls calls;
  calls.kill_at(end);
  DiskTierOptions options = options_for(cache, kCap);
  options.queue.threads = 1;
  options.sync = seed % 8 == 0 ? DiskSync::kAlways : DiskSync::kNever;
  DiskTier tier(options);
  for (int i = 0; i < 40; ++i) {
    const uint64_t number = random() % kPages;
    put(tier, number, size_of(number));
  }
  return 0;
}

TEST(DiskCrash, AKilledProcessLeavesRightPagesOrNone) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  std::vector<PageKey> keys;
  std::vector<std::vector<std::byte>> pages;
  std::vector<PageBuffer> buffers;
  for (uint64_t i = 0; i < kPages; ++i) {
    keys.push_back(key_of(i));
    pages.push_back(page_of(i, size_of(i)));
    buffers.push_back(buffer_of(size_of(i)));
  }
  const int rounds = cases(600);
  int kills = 0;
  uint64_t served = 0;
  uint64_t wrong = 0;
  uint64_t leftovers = 0;
  uint64_t damaged = 0;
  for (int round = 0; round < rounds; ++round) {
    const int end =
        in_child([&] { return put_some(cache, static_cast<unsigned>(round), 1 + round % 60); });
    ASSERT_TRUE(end == 0 || end == 1000 + SIGKILL) << end;
    kills += end != 0;

    if (std::filesystem::exists(cache)) leftovers += contents_of(cache).temporary;
    DiskTierOptions options = options_for(cache, kCap);
    options.queue.threads = 1;
    DiskTier tier(options);
    expect_exact(tier, cache);
    EXPECT_LE(tier.stats().bytes, kCap);
    for (const PageBuffer& buffer : buffers) std::memset(buffer.data.get(), 0, buffer.size);
    const TicketPtr ticket = tier.get(keys, buffers);
    finish(ticket);
    for (size_t i = 0; i < kPages; ++i) {
      if (!ticket->hit(i)) continue;
      ++served;
      if (std::memcmp(buffers[i].data.get(), pages[i].data(), pages[i].size()) != 0) ++wrong;
    }
    damaged += tier.stats().damaged;
    ASSERT_EQ(wrong, 0u) << "round " << round;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  std::cout << kills << " kills, " << leftovers << " pages cut off while they were written, "
            << served << " pages served, " << wrong << " wrong, " << damaged << " damaged\n";
  EXPECT_GT(kills, rounds / 2);
  EXPECT_GT(leftovers, static_cast<uint64_t>(rounds / 8));
  EXPECT_GT(served, static_cast<uint64_t>(rounds));
  // A rename shows whole files only, and the system keeps what a killed process wrote.
  EXPECT_EQ(damaged, 0u);
}

}  // namespace
}  // namespace prefix
