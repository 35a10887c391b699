// Pieces of device memory that come to the host together: how often the device is waited for, and
// that every byte arrives.
#include "ops/gpu/downloads.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/status.h"
#include "kernels/emulator.h"

namespace prefix::ops::gpu {
namespace {

constexpr size_t kHalf = 1000;

class DownloadsTest : public ::testing::Test {
 protected:
  unsigned char* allocate(size_t bytes) {
    void* device = nullptr;
    EXPECT_EQ(runtime_.allocate(bytes, &device), Code::kOk);
    return static_cast<unsigned char*>(device);
  }
  // Brings pieces of these sizes; how often the device was waited for.
  int64_t run(const std::vector<size_t>& sizes) {
    const size_t all = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
    std::vector<unsigned char> want(all), got(all);
    for (size_t i = 0; i < all; ++i) want[i] = static_cast<unsigned char>(i * 7 + i / 251);
    unsigned char* const device = allocate(all);
    EXPECT_EQ(runtime_.upload(device, want.data(), all), Code::kOk);
    std::vector<Download> pieces;
    size_t at = 0;
    for (const size_t size : sizes) {
      pieces.push_back({&got[at], device + at, size});
      at += size;
    }
    const int64_t before = runtime_.counters().waits + runtime_.counters().downloads;
    downloads_.run(pieces);
    EXPECT_EQ(got, want);
    return runtime_.counters().waits + runtime_.counters().downloads - before;
  }

  EmulatedRuntime runtime_;
  Uploads uploads_;
  Threads threads_{3};
  Downloads downloads_{runtime_, uploads_, threads_, kHalf};
};

// Snapshots wait on threads of their own, also for what they sent before the step's flags.
TEST_F(DownloadsTest, FlagsAreThereAfterAWaitForThem) {
  void* const device = allocate(8);
  const int32_t set[] = {0, 1};
  ASSERT_EQ(runtime_.upload(device, set, sizeof set), Code::kOk);
  RowFlags flags(runtime_, uploads_);
  flags.begin(2);
  const uint64_t of_another = uploads_.sent();
  flags.fetch(static_cast<const int32_t*>(device));
  uploads_.finished(of_another);
  EXPECT_FALSE(flags.here());
  const uint64_t sent = uploads_.sent();
  ASSERT_EQ(runtime_.synchronize(), Code::kOk);
  uploads_.finished(sent);
  EXPECT_TRUE(flags.here());
  EXPECT_EQ(flags.flags()[1], 1);
  flags.begin(2);
  EXPECT_FALSE(flags.here());
}

TEST_F(DownloadsTest, AWaitForEachHalfThatIsFull) {
  EXPECT_EQ(run(std::vector<size_t>(10, 100)), 1);
  EXPECT_EQ(run(std::vector<size_t>(11, 100)), 2);
  EXPECT_EQ(run(std::vector<size_t>(64, 100)), 7);
  EXPECT_EQ(runtime_.counters().pinned_allocations, 1);
}

TEST_F(DownloadsTest, PiecesOfAnySize) {
  EXPECT_EQ(run({1}), 1);
  EXPECT_EQ(run({999, 2}), 2);
  EXPECT_EQ(run({10, 5003, 1, 700}), 6);
  downloads_.run({});
}

TEST_F(DownloadsTest, UploadsBeforeThemAreKnownToBeDone) {
  const uint64_t upload = uploads_.add();
  run({1});
  EXPECT_TRUE(uploads_.done(upload));
}

TEST_F(DownloadsTest, WithoutPinnedMemoryOneByOne) {
  std::vector<unsigned char> host(300);
  const std::vector<Download> pieces(3, {host.data(), allocate(300), 100});
  runtime_.fail_after(0, Code::kOutOfMemory);
  downloads_.run(pieces);
  EXPECT_EQ(runtime_.counters().downloads, 3);
  EXPECT_EQ(run({100, 100}), 1);
}

TEST_F(DownloadsTest, AFailureIsSaid) {
  run({1});
  std::vector<unsigned char> host(3000);
  const Download piece{host.data(), allocate(host.size()), host.size()};
  for (int call = 0; call < 6; ++call) {  // begin, wait, begin, wait, begin, wait
    runtime_.fail_after(call, Code::kDeviceLost);
    EXPECT_THROW(downloads_.run({&piece, 1}), Error) << call;
    runtime_.fail_after(-1, Code::kOk);
  }
  EXPECT_EQ(run({2500}), 3);
}

}  // namespace
}  // namespace prefix::ops::gpu
