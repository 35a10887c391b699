// Shared memory that knows for every 16 bytes who wrote and read them when, and barriers from which
// actors learn what has happened (vector clocks).
//
//   actor 0      the producer           a clock of its own each; know(a)[b] is the time up to which
//   actor 1..8   the warps of groups    a knows what b has done
//   actor 9..    copies of a barrier
//
// An access must know of everything that it depends on: reads of the last write, writes of the last
// write and of all reads. Otherwise it is a conflict, however the events happened to follow one
// another this time.
//
// Blocks of a cluster read each other's memory between barriers that all of them pass; each such
// barrier is an *epoch*. Actors of one block have no clocks in another: what was written must have
// been known in an epoch that the reader saw begin, and what was read in an epoch must not be
// overwritten in it.
//
// TrackedBlock is what a block has of it whose roles take turns (turns.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/emulator.h"
#include "kernels/turns.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

inline constexpr int kMaxBarriers = std::max(kHopperBarriers, kDecodeBarriers) + 1;
inline constexpr int kActors = 9 + kMaxBarriers;
using Clock = std::array<int64_t, kActors>;
inline constexpr int kProducer = 0;
inline int warp_actor(int group, int warp) { return 1 + 4 * group + warp; }
inline int copy_actor(int barrier) { return 9 + barrier; }

inline void join(Clock& into, const Clock& other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

class TrackedMemory {
 public:
  // What nobody wrote is NaN in every type.
  explicit TrackedMemory(size_t bytes) : data_(bytes, 0xff), marks_(bytes / kGrain) {
    for (size_t i = 0; i < know_.size(); ++i) know_[i][i] = 1;
  }

  // What an actor knows to have happened.
  Clock& know(int actor) { return know_[actor]; }
  int64_t now(int actor) { return know(actor)[actor]; }
  void tick(int actor) { ++know(actor)[actor]; }
  void fence_async(int actor) {
    fenced_[actor] = now(actor);
    tick(actor);
  }

  void read(int actor, int offset, void* out, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      check_read(actor, offset, m);
      m.reads[actor] = now(actor);
    }
    std::memcpy(out, &data_[offset], bytes);
  }
  void write(int actor, int offset, const void* value, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      check_write(actor, offset, m);
      m.writer = actor;
      m.written = now(actor);
      m.stored = true;
    }
    std::memcpy(&data_[offset], value, bytes);
  }
  // By an actor of another block, in its epoch; `known` is what this block knew when it began.
  void read_remote(const Clock& known, int64_t epoch, int offset, void* out, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      if (m.in_flight) conflict(-1, offset, "(another block's) reads what a copy is still writing");
      if (epoch == 0 || known[m.writer] < m.written)
        conflict(-1, offset, "(another block's) reads what it does not know to be written");
      m.remote = std::max(m.remote, epoch);
      last_remote_ = std::max(last_remote_, epoch);
    }
    std::memcpy(out, &data_[offset], bytes);
  }
  int64_t epoch(int actor) const { return epochs_[actor]; }
  void next_epoch(int actor) { ++epochs_[actor]; }
  // Of the last read by another block.
  int64_t last_remote() const { return last_remote_; }
  void start_copy(int actor, int offset, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      check_write(actor, offset, m);
      m.in_flight = true;
    }
  }
  void land(int copier, int64_t phase, int offset, const void* from, size_t bytes) {
    for (Mark& m : touch(offset, bytes)) {
      if (m.products > 0) conflict(copier, offset, "lands on what a product still reads");
      m.in_flight = false;
      m.writer = copier;
      m.written = phase;
      m.stored = false;
    }
    std::memcpy(&data_[offset], from, bytes);
  }

  // A product of an actor reads 16 bytes, from its start to its end.
  void begin_product(int actor, int offset) {
    Mark& m = touch(offset, kGrain).front();
    check_read(actor, offset, m);
    if (m.stored && m.written > fenced_[m.writer])
      conflict(actor, offset, "multiplies what was stored without fence_async()");
    ++m.products;
  }
  void end_product(int actor, int offset) {
    Mark& m = touch(offset, kGrain).front();
    --m.products;
    m.reads[actor] = now(actor);
  }
  uint16_t element(int offset) const {
    uint16_t x;
    std::memcpy(&x, &data_.at(offset), 2);
    return x;
  }

 private:
  static constexpr size_t kGrain = 16;
  struct Mark {
    int writer = kProducer;
    int64_t written = 0;
    bool stored = false;  // by a thread, not by the copy engine
    bool in_flight = false;
    int products = 0;
    std::array<int64_t, 9> reads{};
    int64_t remote = -1;  // epoch of the last read by another block
  };
  std::span<Mark> touch(int offset, size_t bytes) {
    const auto at = static_cast<size_t>(offset);
    if (offset < 0 || at + bytes > data_.size() || at % std::min(bytes, kGrain) != 0)
      throw std::out_of_range("shared memory: " + std::to_string(bytes) + " bytes at " +
                              std::to_string(offset) + " of " + std::to_string(data_.size()));
    return {&marks_[at / kGrain], (bytes + kGrain - 1) / kGrain};
  }
  void check_read(int actor, int offset, const Mark& m) {
    if (m.in_flight) conflict(actor, offset, "reads what a copy is still writing");
    if (know(actor)[m.writer] < m.written)
      conflict(actor, offset, "reads what it does not know to be written");
  }
  void check_write(int actor, int offset, const Mark& m) {
    if (m.in_flight) conflict(actor, offset, "writes what a copy is still writing");
    if (m.products > 0) conflict(actor, offset, "writes what a product still reads");
    if (know(actor)[m.writer] < m.written)
      conflict(actor, offset, "writes over what it does not know to be written");
    if (m.remote >= epoch(actor))
      conflict(actor, offset, "writes over what another block may be reading");
    for (size_t i = 0; i < m.reads.size(); ++i)
      if (know(actor)[i] < m.reads[i])
        conflict(actor, offset, "writes over what it does not know to be read");
  }
  [[noreturn]] static void conflict(int actor, int offset, const char* what) {
    throw std::logic_error("shared memory at " + std::to_string(offset) + ": actor " +
                           std::to_string(actor) + " " + what);
  }

  std::vector<unsigned char> data_;
  std::vector<Mark> marks_;
  std::array<Clock, kActors> know_{};
  std::array<int64_t, kActors> fenced_{};
  std::array<int64_t, kActors> epochs_{};
  int64_t last_remote_ = -1;
};

// An mbarrier with the copies that count for its phase.
class TrackedBarrier {
 public:
  TrackedBarrier(TrackedMemory& memory, int number) : memory_(memory), number_(number) {}

  void begin(int count) {
    if (count < 1) throw std::logic_error("a barrier for nobody");
    count_ = missing_ = count;
  }
  void arrive(int actor) {
    if (missing_ == 0) throw std::logic_error("more arrivals than a barrier has");
    join(arriving_, memory_.know(actor));
    memory_.tick(actor);
    --missing_;
    finish();
  }
  void expect(int actor, int64_t bytes) {
    pending_ += bytes;
    arrive(actor);
  }
  void start_copy(int actor, int to, const void* from, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
      throw std::logic_error("a bulk copy from an address that is no multiple of 16");
    memory_.start_copy(actor, to, bytes);
    copies_.push_back({to, from, bytes});
  }
  // Whether the phase of this parity is over. Copies land when somebody asks.
  bool over(int parity) {
    while (!copies_.empty()) {
      const Copy c = copies_.front();
      copies_.pop_front();
      pending_ -= static_cast<int64_t>(c.bytes);
      memory_.land(copy_actor(number_), phase_ + 1, c.to, c.from, c.bytes);
    }
    finish();
    return phase_ % 2 != parity;
  }
  void learn(int actor) {
    if (phase_ > 0) join(memory_.know(actor), known_);
  }
  bool idle() const { return copies_.empty() && pending_ == 0; }

 private:
  struct Copy {
    int to;
    const void* from;
    size_t bytes;
  };
  void finish() {
    if (count_ == 0 || missing_ > 0 || pending_ != 0) return;
    ++phase_;
    missing_ = count_;
    known_ = arriving_;
    known_[copy_actor(number_)] = phase_;
  }

  TrackedMemory& memory_;
  int number_;
  int count_ = 0, missing_ = 0;
  int64_t pending_ = 0;
  int64_t phase_ = 0;  // that are over
  std::deque<Copy> copies_;
  Clock arriving_{}, known_{};
};

// The memory and the barriers of a block, and its producer.
class TrackedBlock {
 public:
  TrackedBlock(Turns& turns, const Sabotage& sabotage, size_t shared_bytes, int barriers, int x,
               int y)
      : turns_(turns), sabotage_(sabotage), memory_(shared_bytes), x_(x), y_(y) {
    for (int i = 0; i < barriers; ++i) barriers_.emplace_back(memory_, i);
  }
  int x() const { return x_; }
  int y() const { return y_; }
  void begin_barrier(int number, int count) { barrier(number).begin(count); }

 protected:
  class Producer {
   public:
    explicit Producer(TrackedBlock& block) : block_(block) {}
    void wait(int barrier, int parity) { block_.wait(barrier, parity, {&kProducer, 1}); }
    void expect(int barrier, int bytes) {
      block_.barrier(barrier).expect(kProducer, bytes);
      block_.turns_.pause();
    }
    void copy(int to, const void* from, int bytes, int barrier) {
      block_.barrier(barrier).start_copy(kProducer, to, from, static_cast<size_t>(bytes));
    }
    template <class T>
    void set(int offset, const T& value) {
      block_.memory_.write(kProducer, offset, &value, sizeof value);
    }

   private:
    TrackedBlock& block_;
  };

  TrackedBarrier& barrier(int number) { return barriers_.at(number); }
  void wait(int number, int parity, std::span<const int> actors) {
    if (sabotage_.wait == number) return;
    TrackedBarrier& b = barrier(number);
    const int asked = sabotage_.early == number ? parity ^ 1 : parity;
    turns_.pause();
    turns_.wait_until([&b, asked] { return b.over(asked); });
    for (const int a : actors) b.learn(a);
  }
  // When all roles have ended.
  void finish() const {
    for (const TrackedBarrier& b : barriers_)
      if (!b.idle()) throw std::logic_error("a block ended with copies in flight");
  }

  Turns& turns_;
  const Sabotage sabotage_;
  TrackedMemory memory_;

 private:
  std::deque<TrackedBarrier> barriers_;
  int x_, y_;
};

}  // namespace prefix::ops::gpu
