// The arrays of a step on their way to the device: gathered in pinned memory, sent by one copy.
//
//   host arrays   tokens  positions  slots  copies  plan ...
//                   └───────┴──────────┴──────┴──────┘ place()
//   pinned        [ tokens .. | positions .. | slots .... | ...   ]
//                   └──────────── one upload, send() ──────────┘
//   device        [ tokens .. | positions .. | slots .... | ...   ]   at(handle) -> address
//
// Each array has room for a power of two of bytes, so that arrays which change a little from step
// to step stay where they are. Not thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {

// Memory of the device, or pinned memory of the host, that grows and never shrinks.
class Buffer {
 public:
  explicit Buffer(Runtime& runtime, bool pinned = false) : runtime_(runtime), pinned_(pinned) {}
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // At least `bytes`, exactly so many the first time;
  // elsewhere, and on the device zero, whenever it had to grow.
  unsigned char* reserve(size_t bytes);
  const unsigned char* data() const { return static_cast<const unsigned char*>(data_); }

 private:
  void release() { pinned_ ? runtime_.release_pinned(data_) : runtime_.release(data_); }

  Runtime& runtime_;
  const bool pinned_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Which copies of pinned memory the device is done with: uploads and the flags of a step. They have
// numbers in the order of the stream; a wait for the stream, on any thread, is a wait for those
// that were sent before it began.
class Uploads {
 public:
  uint64_t sent() const { return sent_; }
  uint64_t add() { return ++sent_; }
  void finished(uint64_t number) {
    uint64_t known = finished_;
    while (known < number && !finished_.compare_exchange_weak(known, number)) {
    }
  }
  bool done(uint64_t number) const { return number <= finished_; }

 private:
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> finished_{0};
};

// An array among those of a Staging.
template <typename T>
struct Staged {
  int32_t entry = -1;  // none where the array is empty
};

class Staging {
 public:
  Staging(Runtime& runtime, Uploads& uploads)
      : runtime_(runtime), uploads_(uploads), device_(runtime), pinned_(runtime, true) {}

  // Room that an array of so many bytes takes.
  static size_t room(size_t bytes);
  // Makes room for arrays that take so much together, so that send() need not.
  void reserve(size_t room) {
    pinned_.reserve(room);
    device_.reserve(room);
  }

  // Forgets everything, and waits until the copy before is done with the pinned memory.
  void begin();
  // The array is read by send(). As if it had `count` elements at least: those that it lacks are
  // bytes of `fill`.
  template <typename T>
  Staged<T> place(std::span<const T> array, int64_t count = 0, unsigned char fill = 0) {
    return {place(array.data(), array.size_bytes(),
                  std::max(array.size(), static_cast<size_t>(count)) * sizeof(T), fill)};
  }
  void send();
  // Where it lies on the device after send().
  template <typename T>
  const T* at(Staged<T> staged) const {
    return staged.entry < 0 ? nullptr : static_cast<const T*>(address(staged.entry));
  }

 private:
  struct Entry {
    const void* host;
    size_t bytes;
    size_t padded;
    unsigned char fill;
    size_t offset;
  };
  int32_t place(const void* data, size_t bytes, size_t padded, unsigned char fill);
  const void* address(int32_t entry) const;

  Runtime& runtime_;
  Uploads& uploads_;
  Buffer device_, pinned_;
  std::vector<Entry> entries_;
  size_t used_ = 0;
  unsigned char* base_ = nullptr;  // on the device, after send()
  uint64_t upload_ = 0;            // number of the last one
};

// A number for each row of a step that its kernels set, on its way to the host:
//
//   zeros() ── staged with the step ──> device ── fetch() ──> pinned ── here() ──> flags()
//                                         ▲ kernels
//
// They come back with whatever is waited for next, so that they cost no wait of their own. Other
// threads wait too, also for what they sent before fetch(): by the numbers of Uploads it is known
// whether a wait was for the flags.
class RowFlags {
 public:
  RowFlags(Runtime& runtime, Uploads& uploads)
      : runtime_(runtime), uploads_(uploads), pinned_(runtime, true) {}

  void reserve(size_t rows) { pinned_.reserve(rows * sizeof(int32_t)); }
  void begin(size_t rows) {
    zeros_.assign(rows, 0);
    coming_ = 0;
  }
  std::span<const int32_t> zeros() const { return zeros_; }
  // `device`: where zeros() went.
  void fetch(const int32_t* device) {
    if (coming_ > 0 || zeros_.empty()) return;
    const size_t bytes = zeros_.size() * sizeof(int32_t);
    check(runtime_, runtime_.begin_download(pinned_.reserve(bytes), device, bytes),
          "the flags of a step");
    coming_ = uploads_.add();
  }
  bool here() const { return zeros_.empty() || (coming_ > 0 && uploads_.done(coming_)); }
  std::span<const int32_t> flags() const {
    return {reinterpret_cast<const int32_t*>(pinned_.data()), zeros_.size()};
  }

 private:
  Runtime& runtime_;
  Uploads& uploads_;
  Buffer pinned_;
  std::vector<int32_t> zeros_;
  uint64_t coming_ = 0;  // number of the copy; 0: not fetched
};

}  // namespace prefix::ops::gpu
