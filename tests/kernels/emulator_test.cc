// The emulator finds what it is there to find: conflicts in shared memory, copies that nobody
// waited for, memory that is not the device's.
#include "kernels/emulator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/block_emulated.h"

namespace prefix::ops::gpu {
namespace {

TEST(SharedMemory, AccessAfterAnotherThreadsNeedsASync) {
  SharedMemory shared(64);
  const float value = 3;
  float out;
  shared.write(0, 16, &value, 4);
  shared.read(0, 16, &out, 4);
  EXPECT_THROW(shared.read(1, 16, &out, 4), std::logic_error);
  shared.next_phase();
  shared.read(1, 16, &out, 4);
  EXPECT_EQ(out, 3);
  shared.read(1, 8, &out, 4);
  EXPECT_THROW(shared.write(0, 8, &value, 4), std::logic_error);
  shared.next_phase();
  shared.write(0, 8, &value, 4);
  EXPECT_THROW(shared.write(1, 8, &value, 4), std::logic_error);
}

TEST(SharedMemory, CopiesLandWhenWaitedFor) {
  SharedMemory shared(64);
  alignas(16) const uint32_t from[4] = {1, 2, 3, 4};
  uint32_t out;
  shared.start_copy(0, 16, from);
  shared.commit();
  EXPECT_THROW(shared.read(0, 16, &out, 4), std::logic_error);
  EXPECT_THROW(shared.finish(), std::logic_error);
  shared.wait(0);
  shared.read(0, 16, &out, 4);
  EXPECT_EQ(out, 1u);
  EXPECT_THROW(shared.read(1, 20, &out, 4), std::logic_error);  // other threads after a sync
  shared.next_phase();
  shared.read(1, 20, &out, 4);
  EXPECT_EQ(out, 2u);
  EXPECT_THROW(shared.read(1, 64, &out, 4), std::out_of_range);
  EXPECT_THROW(shared.write(1, 8, from, 16), std::out_of_range);  // not aligned
}

TEST(SharedMemory, GlobalMemoryIsAlignedToTheAccess) {
  SharedMemory shared(64);
  EmulatedBlock block(shared, 0, 0, 32, false);
  alignas(16) unsigned char data[64] = {};
  EXPECT_THROW(shared.start_copy(0, 16, data + 8), std::logic_error);
  EXPECT_THROW(load16(data + 8), std::logic_error);
  EXPECT_THROW(store16(data + 4, Bits128{}), std::logic_error);
  EXPECT_THROW(store_whole(data + 4, Floats2{}), std::logic_error);
  store_whole(data + 8, Floats2{{1, 2}});
  const auto* const floats = reinterpret_cast<const float*>(data);
  float two[2], four[4];
  block.load_fresh(floats + 2, two);
  EXPECT_EQ(two[1], 2);
  EXPECT_THROW(block.load_fresh(floats + 1, two), std::logic_error);
  EXPECT_THROW(block.load_fresh(floats + 2, four), std::logic_error);
}

TEST(EmulatedRuntime, RefusesMemoryThatIsNotTheDevices) {
  EmulatedRuntime runtime;
  void* data = nullptr;
  ASSERT_EQ(runtime.allocate(100, &data), Code::kOk);
  char host[200] = {};
  EXPECT_EQ(runtime.upload(data, host, 100), Code::kOk);
  EXPECT_EQ(runtime.upload(data, host, 101), Code::kInternal);
  EXPECT_EQ(runtime.download(host, host, 1), Code::kInternal);
  runtime.release(data);
  EXPECT_EQ(runtime.upload(data, host, 1), Code::kInternal);
}

TEST(EmulatedRuntime, RefusesPinnedMemoryThatChangesBeforeAWait) {
  EmulatedRuntime runtime;
  void *data = nullptr, *pinned = nullptr;
  ASSERT_EQ(runtime.allocate(64, &data), Code::kOk);
  ASSERT_EQ(runtime.allocate_pinned(64, &pinned), Code::kOk);
  std::memset(pinned, 1, 64);
  ASSERT_EQ(runtime.upload(data, pinned, 64), Code::kOk);
  EXPECT_EQ(runtime.synchronize(), Code::kOk);
  std::memset(pinned, 2, 64);
  ASSERT_EQ(runtime.upload(data, pinned, 64), Code::kOk);
  std::memset(pinned, 3, 64);
  EXPECT_EQ(runtime.synchronize(), Code::kInternal);
  EXPECT_EQ(runtime.synchronize(), Code::kOk);
  runtime.release(data);
  runtime.release_pinned(pinned);
}

// mma and ldmatrix by their definitions, against a plain product.
TEST(EmulatedWarp, MultipliesFragmentsFromSharedMemory) {
  SharedMemory shared(2048);
  EmulatedWarp warp(shared, 0, false);
  uint16_t a[16][16], b[8][16];  // b: columns as rows, as keys lie
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k) {
      a[i][k] = to_bf16(static_cast<float>((i * 7 + k * 3) % 11 - 5));
      if (i < 8) b[i][k] = to_bf16(static_cast<float>((i * 5 + k) % 7 - 3));
    }
  shared.write(0, 0, a, sizeof a);
  shared.write(0, 512, b, sizeof b);
  shared.next_phase();
  EmulatedWarp::Local<int> at;
  EmulatedWarp::Local<FragmentA> left, right;
  for (int lane = 0; lane < 32; ++lane) at[lane] = lane % 16 * 32 + lane / 16 * 16;
  warp.load_matrices<false>(at, left);
  for (int lane = 0; lane < 32; ++lane) at[lane] = 512 + lane % 8 * 32 + lane / 8 % 2 * 16;
  warp.load_matrices<false>(at, right);
  EmulatedWarp::Local<FragmentB> half;
  EmulatedWarp::Local<FragmentC> sum;
  for (int lane = 0; lane < 32; ++lane) {
    half[lane] = {{right[lane].x[0], right[lane].x[1]}};
    sum[lane] = {{1, 1, 1, 1}};
  }
  warp.mma(sum, left, half);
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r) {
      const int i = lane / 4 + r / 2 * 8, j = lane % 4 * 2 + r % 2;
      float want = 1;
      for (int k = 0; k < 16; ++k) want += from_bf16(a[i][k]) * from_bf16(b[j][k]);
      EXPECT_EQ(sum[lane].x[r], want);
    }
}

}  // namespace
}  // namespace prefix::ops::gpu
