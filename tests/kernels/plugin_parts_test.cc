// Parts of the plugin that need no GPU: whose context is current, and uploads from pageable memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "current_context.h"
#include "upload_ring.h"

namespace prefix::ops::gpu {
namespace {

// --- contexts ------------------------------------------------------------------------------------

int contexts[4];  // their addresses are what counts
void* current = nullptr;
int calls = 0;
bool initialized = true;

const Contexts kContexts = {
    [](void** context) {
      *context = current;
      return initialized ? 0 : 3;  // CUDA_ERROR_NOT_INITIALIZED
    },
    [](void* context) {
      ++calls;
      current = context;
      return 0;
    },
    [](int32_t device) {
      ++calls;
      initialized = true;
      current = &contexts[device];
      return 0;
    },
};

TEST(CurrentContext, TheCallersComesBack) {
  for (void* const before : {static_cast<void*>(&contexts[0]), static_cast<void*>(nullptr)}) {
    current = before;
    {
      const CurrentContext context(kContexts, 1, &contexts[1]);
      EXPECT_EQ(current, &contexts[1]);
      {
        const CurrentContext again(kContexts, 1, &contexts[1]);
        EXPECT_EQ(current, &contexts[1]);
      }
      EXPECT_EQ(current, &contexts[1]);
    }
    EXPECT_EQ(current, before);
  }
}

// The first call of a process: no context is known, neither the caller's nor ours.
TEST(CurrentContext, WithoutTheDriverThereIsNothingToRestore) {
  initialized = false;
  current = nullptr;
  {
    const CurrentContext context(kContexts, 1, nullptr);
  }
  EXPECT_EQ(current, &contexts[1]);
}

TEST(CurrentContext, TheEnginesThreadKeepsIt) {
  current = &contexts[0];
  {
    const CurrentContext context(kContexts, 1, &contexts[1], true);
  }
  EXPECT_EQ(current, &contexts[1]);
  calls = 0;
  {
    const CurrentContext context(kContexts, 1, &contexts[1], true);
  }
  {
    const CurrentContext context(kContexts, 1, &contexts[1]);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(current, &contexts[1]);
}

// --- uploads -------------------------------------------------------------------------------------

// Copies that read their source as late as they may.
struct LazyStream {
  struct Copy {
    void* device;
    const void* pinned;
    size_t bytes;
  };
  Code copy(void* device, const void* pinned, size_t bytes) {
    if (fail_in == 0) return Code::kDeviceLost;
    --fail_in;
    queue.push_back({device, pinned, bytes});
    most = std::max(most, queue.size());
    return Code::kOk;
  }
  Code mark(int slot) {
    marks[slot] = done + queue.size();
    return Code::kOk;
  }
  Code wait(int slot) {
    while (done < marks[slot]) run();
    return Code::kOk;
  }
  void run() {
    std::memcpy(queue.front().device, queue.front().pinned, queue.front().bytes);
    queue.pop_front();
    ++done;
  }
  std::deque<Copy> queue;
  size_t done = 0, most = 0;
  size_t marks[UploadRing<LazyStream>::kSlots] = {};
  int fail_in = -1;
};

TEST(UploadRing, TheSourceIsFreeWhenTheCallReturns) {
  constexpr size_t kSlot = 64;
  unsigned char memory[UploadRing<LazyStream>::kSlots * kSlot];
  LazyStream stream;
  UploadRing<LazyStream> ring(memory, kSlot);
  std::vector<unsigned char> want, device(4096);
  unsigned char next = 1;
  for (const size_t bytes : {1, 64, 65, 300, 7, 0, 1000, 640, 63}) {
    std::vector<unsigned char> source(bytes);
    std::iota(source.begin(), source.end(), next);
    next = static_cast<unsigned char>(next + 37);
    ASSERT_EQ(ring.upload(stream, device.data() + want.size(), source.data(), bytes), Code::kOk);
    want.insert(want.end(), source.begin(), source.end());
    std::fill(source.begin(), source.end(), 0);
  }
  while (!stream.queue.empty()) stream.run();
  device.resize(want.size());
  EXPECT_EQ(device, want);
  EXPECT_EQ(stream.most, static_cast<size_t>(ring.kSlots)) << "pieces are not copied side by side";
}

TEST(UploadRing, AFailureIsHandedOn) {
  unsigned char memory[UploadRing<LazyStream>::kSlots * 64], device[1000], source[1000] = {};
  LazyStream stream;
  UploadRing<LazyStream> ring(memory, 64);
  stream.fail_in = 2;
  EXPECT_EQ(ring.upload(stream, device, source, sizeof source), Code::kDeviceLost);
}

}  // namespace
}  // namespace prefix::ops::gpu
