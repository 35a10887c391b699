// Block and Warp of kernels/body/portable.h on the CPU, one block at a time.
//
// Threads run one after the other from one collective call to the next, forwards or backwards, so a
// result that depends on their order shows. Shared memory knows who touched each byte in which
// *phase* (the time between two sync() calls):
//
//   a byte written by one thread and touched by another in the same phase     conflict
//   an asynchronous copy lands at wait(), not before; the bytes are in flight until then, and
//   nobody may touch them                                                     conflict
//
// Both are failures of the kernel that a GPU would show as wrong numbers now and then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "body/portable.h"
#include "kernels/lanes_emulated.h"

namespace prefix::ops::gpu {

class SharedMemory {
 public:
  // What nobody wrote is NaN in every type.
  explicit SharedMemory(size_t bytes) : data_(bytes, 0xff), marks_(bytes / kGrain) {}

  void next_phase() { ++phase_; }

  void read(int thread, int offset, void* out, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      if (m.in_flight) conflict(thread, offset, "reads what a copy is still writing");
      if (m.write_phase == phase_ && m.writer != thread)
        conflict(thread, offset, "reads what another thread wrote since the last sync");
      m.reader = m.read_phase == phase_ && m.reader != thread ? kMany : thread;
      m.read_phase = phase_;
    }
    std::memcpy(out, &data_[offset], bytes);
  }
  void write(int thread, int offset, const void* value, size_t bytes) {
    claim(thread, offset, bytes);
    std::memcpy(&data_[offset], value, bytes);
  }
  void start_copy(int thread, int offset, const void* from) {
    expect_aligned(from, 16);
    claim(thread, offset, 16);
    for (Mark& m : touch(offset, 16)) m.in_flight = true;
    open_.push_back({thread, offset, from});
  }
  void commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  void wait(size_t allowed) {
    for (; groups_.size() > allowed; groups_.pop_front()) {
      for (const Copy& c : groups_.front()) {
        for (Mark& m : touch(c.offset, 16)) {
          m.in_flight = false;
          m.writer = c.thread;
          m.write_phase = phase_;
        }
        std::memcpy(&data_[c.offset], c.from, 16);
      }
    }
  }
  void finish() const {
    if (!open_.empty() || !groups_.empty())
      throw std::logic_error("a block ended with copies in flight");
  }

 private:
  static constexpr size_t kGrain = 4;  // bytes per mark
  static constexpr int kMany = -2;
  struct Mark {
    int64_t write_phase = -1;
    int64_t read_phase = -1;
    int writer = -1;
    int reader = -1;
    bool in_flight = false;
  };
  struct Copy {
    int thread;
    int offset;
    const void* from;
  };
  std::span<Mark> touch(int offset, size_t bytes) {
    const auto at = static_cast<size_t>(offset);
    if (offset < 0 || at + bytes > data_.size() || at % std::min<size_t>(bytes, 16) != 0 ||
        bytes % kGrain != 0)
      throw std::out_of_range("shared memory: " + std::to_string(bytes) + " bytes at " +
                              std::to_string(offset) + " of " + std::to_string(data_.size()));
    return {&marks_[at / kGrain], bytes / kGrain};
  }
  void claim(int thread, int offset, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      if (m.in_flight) conflict(thread, offset, "writes what a copy is still writing");
      if (m.write_phase == phase_ && m.writer != thread)
        conflict(thread, offset, "writes what another thread wrote since the last sync");
      if (m.read_phase == phase_ && m.reader != thread)
        conflict(thread, offset, "writes what another thread read since the last sync");
      m.writer = thread;
      m.write_phase = phase_;
    }
  }
  [[noreturn]] static void conflict(int thread, int offset, const char* what) {
    throw std::logic_error("shared memory at " + std::to_string(offset) + ": thread " +
                           std::to_string(thread) + " " + what);
  }

  std::vector<unsigned char> data_;
  std::vector<Mark> marks_;
  int64_t phase_ = 0;
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;
};

class EmulatedWarp : public EmulatedLanes {
 public:
  EmulatedWarp(SharedMemory& shared, int index, bool backwards)
      : EmulatedLanes(index, backwards), shared_(shared) {}

  template <class T>
  T get(int lane, int offset) const {
    T value;
    shared_.read(thread(lane), offset, &value, sizeof value);
    return value;
  }
  template <class T>
  void set(int lane, int offset, T value) {
    shared_.write(thread(lane), offset, &value, sizeof value);
  }
  template <bool transposed>
  void load_matrices(const Local<int>& at, Local<FragmentA>& out) {
    matrices<transposed>(
        out, [&](int lane, uint16_t* row) { shared_.read(thread(lane), at[lane], row, 16); });
  }

 private:
  int thread(int lane) const { return 32 * index() + lane; }

  SharedMemory& shared_;
};

class EmulatedBlock {
 public:
  using Warp = EmulatedWarp;
  template <class T>
  class PerThread {
   public:
    explicit PerThread(EmulatedBlock& block) : warps_(static_cast<size_t>(block.threads_ / 32)) {}
    T& operator[](int thread) { return warps_[thread / 32][thread % 32]; }
    Warp::Local<T>& of(const Warp& warp) { return warps_[warp.index()]; }

   private:
    std::vector<Warp::Local<T>> warps_;
  };

  EmulatedBlock(SharedMemory& shared, int x, int y, int threads, bool backwards)
      : shared_(shared), x_(x), y_(y), threads_(threads), backwards_(backwards) {}

  int x() const { return x_; }
  int y() const { return y_; }
  template <class F>
  void each(const F& f) {
    for (int t = 0; t < threads_; ++t) f(backwards_ ? threads_ - 1 - t : t);
  }
  template <class F>
  void each_warp(const F& f) {
    const int warps = threads_ / 32;
    for (int i = 0; i < warps; ++i) {
      Warp warp(shared_, backwards_ ? warps - 1 - i : i, backwards_);
      f(warp);
    }
  }
  void sync() { shared_.next_phase(); }

  template <class T>
  T get(int thread, int offset) {
    T value;
    shared_.read(thread, offset, &value, sizeof value);
    return value;
  }
  template <class T>
  void set(int thread, int offset, const T& value) {
    shared_.write(thread, offset, &value, sizeof value);
  }
  void copy16(int thread, int offset, const void* from) {
    shared_.start_copy(thread, offset, from);
  }
  void commit() { shared_.commit(); }
  template <int N>
  void wait() {
    shared_.wait(N);
  }

  float sum(PerThread<float>& x) {
    float total = 0;
    for (int i = 0; i < threads_ / 32; ++i) {
      Warp warp(shared_, i, backwards_);
      total += warp.sum(x.of(warp));
    }
    return total;
  }

  bool arrives_last(int32_t* counter, int32_t count) {
    shared_.next_phase();
    if (++*counter < count) return false;
    *counter = 0;
    return true;
  }
  template <int N>
  void load_fresh(const float* from, float (&out)[N]) const {
    expect_aligned(from, sizeof(float) * std::min(N, 4));
    std::copy_n(from, N, out);
  }

 private:
  SharedMemory& shared_;
  int x_, y_, threads_;
  bool backwards_;
};

}  // namespace prefix::ops::gpu
