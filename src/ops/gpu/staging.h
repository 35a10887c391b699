// The arrays of a step on their way to the device: gathered in pinned memory, sent by one copy.
//
//   host arrays   tokens  positions  slots  copies  plan ...
//                   └───────┴──────────┴──────┴──────┘ place()
//   pinned        [ tokens | positions | slots | ...   ]
//                   └──────────── one upload, send() ──┘
//   device        [ tokens | positions | slots | ...   ]   find(host array) -> device address
//
// Operations name an array by its host address; find() knows where it is on the device. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {

// Throws what a call of the runtime answered.
void check(Runtime& runtime, Code code, const char* what);

// Device memory that grows and never shrinks.
class Buffer {
 public:
  explicit Buffer(Runtime& runtime) : runtime_(runtime) {}
  ~Buffer() { runtime_.release(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // At least `bytes`; zero and elsewhere whenever it had to grow.
  unsigned char* reserve(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  Runtime& runtime_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Staging {
 public:
  explicit Staging(Runtime& runtime) : runtime_(runtime), device_(runtime) {}
  ~Staging() { runtime_.release_pinned(pinned_); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Forgets everything, and waits until the copy before is done with the pinned memory.
  void begin();
  template <typename T>
  void place(std::span<const T> array) {
    place(array.data(), array.size_bytes());
  }
  void send();
  // The host's arrays may change from now on; device addresses stay good for what was launched.
  void forget() {
    entries_.clear();
    base_ = nullptr;
  }
  // Null when the array is not part of the step.
  template <typename T>
  const T* find(const T* host) const {
    return static_cast<const T*>(find_bytes(host));
  }

 private:
  struct Entry {
    const void* host;
    size_t bytes;
    size_t offset;
  };
  void place(const void* data, size_t bytes);
  const void* find_bytes(const void* host) const;

  Runtime& runtime_;
  Buffer device_;
  void* pinned_ = nullptr;
  size_t pinned_bytes_ = 0;
  std::vector<Entry> entries_;
  size_t used_ = 0;
  unsigned char* base_ = nullptr;  // on the device, after send()
  bool in_flight_ = false;
};

}  // namespace prefix::ops::gpu
