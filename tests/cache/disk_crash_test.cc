// A process that is killed (SIGKILL) while it puts and evicts pages, again and again: whatever the
// folder holds afterwards, the next process serves right pages or none.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "disk_support.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr uint64_t kPages = 64;
constexpr uint64_t kCap = 600 << 10;  // some half of them

size_t size_of(uint64_t number) { return 4000 + number * 521 % 30000; }

// In the child, until it is killed.
[[noreturn]] void put_for_ever(const std::string& cache, unsigned seed) {
  std::mt19937 random(seed);
  DiskTier tier(options_for(cache, kCap));
  for (;;) {
    std::vector<PageKey> keys;
    std::vector<PageBlob> blobs;
    for (int i = 0; i < 4; ++i) {
      const uint64_t number = random() % kPages;
      keys.push_back(key_of(number));
      blobs.push_back(blob_of(page_of(number, size_of(number))));
    }
    tier.put(keys, blobs)->wait_for(std::chrono::minutes(1));
  }
}

TEST(DiskCrash, AKilledProcessLeavesRightPagesOrNone) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::vector<PageKey> keys;
  std::vector<std::vector<std::byte>> pages;
  std::vector<PageBuffer> buffers;
  for (uint64_t i = 0; i < kPages; ++i) {
    keys.push_back(key_of(i));
    pages.push_back(page_of(i, size_of(i)));
    buffers.push_back(buffer_of(size_of(i)));
  }
  const int kills = cases(2000);
  uint64_t served = 0;
  uint64_t wrong = 0;
  uint64_t leftovers = 0;
  uint64_t damaged = 0;
  for (int round = 0; round < kills; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) put_for_ever(cache, static_cast<unsigned>(random()));
    const auto delay = std::chrono::microseconds(1000 + random() % 9000);
    std::this_thread::sleep_for(delay);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself";

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
    ASSERT_EQ(wrong, 0u) << "seed " << seed << ", kill " << round;
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", kill " << round;
  }
  std::cout << kills << " kills, " << leftovers << " pages cut off while they were written, "
            << served << " pages served, " << wrong << " wrong, " << damaged << " damaged\n";
  EXPECT_GT(served, static_cast<uint64_t>(kills));
  // A rename shows whole files only, and the system keeps what a killed process wrote.
  EXPECT_EQ(damaged, 0u);
}

}  // namespace
}  // namespace prefix
