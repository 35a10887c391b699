// The interface of kernels/body/hopper.h on the CPU, one block at a time.
//
// The producer and the groups take turns at random (turns.h), but what proves the waits is not
// luck: every access to shared memory has to know of what it depends on (tracked_memory.h).
//
//   a bulk copy is in flight until somebody waits for its barrier; nobody may touch the bytes
//   a product reads its operands, through the descriptor, when it is waited for; until then nobody
//   may write them, and its sums are NaN and must stay as they are
//   what threads stored is there for products only after fence_async() by those threads
//
// `Sabotage` (emulator.h) leaves out waits and fences, to show that it is noticed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <stdexcept>
#include <vector>

#include "body/hopper.h"
#include "kernels/emulator.h"
#include "kernels/lanes_emulated.h"
#include "kernels/matrix_emulated.h"
#include "kernels/tracked_memory.h"
#include "kernels/turns.h"

namespace prefix::ops::gpu {

class EmulatedHopper {
 public:
  EmulatedHopper(size_t shared_bytes, int x, int y, bool backwards, uint64_t seed,
                 const Sabotage& sabotage)
      : memory_(shared_bytes),
        turns_(seed),
        x_(x),
        y_(y),
        backwards_(backwards),
        sabotage_(sabotage) {
    for (int i = 0; i < kHopperBarriers; ++i) barriers_.emplace_back(memory_, i);
  }

  class Producer {
   public:
    explicit Producer(EmulatedHopper& block) : block_(block) {}
    void wait(int barrier, int parity) { block_.wait(barrier, parity, {kProducer}); }
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
    EmulatedHopper& block_;
  };

  using Warp = EmulatedLanes;

  class Group {
   public:
    using Warp = EmulatedHopper::Warp;
    template <class T>
    class PerThread {
     public:
      explicit PerThread(Group&) : warps_(4) {}
      T& operator[](int thread) { return warps_[static_cast<size_t>(thread / 32)][thread % 32]; }
      Warp::Local<T>& of(const Warp& warp) { return warps_[static_cast<size_t>(warp.index() % 4)]; }

     private:
      std::vector<Warp::Local<T>> warps_;
    };

    Group(EmulatedHopper& block, int index) : block_(block), index_(index) {
      for (int w = 0; w < 4; ++w) actors_.push_back(warp_actor(index, w));
    }
    static int uniform(int x) { return x; }
    template <class T>
    void settle(PerThread<T>&) {}
    int index() const { return index_; }
    template <class F>
    void each(const F& f) {
      for (int t = 0; t < 128; ++t) f(block_.backwards_ ? 127 - t : t);
    }
    template <class F>
    void each_warp(const F& f) {
      for (int w = 0; w < 4; ++w) {
        Warp warp(4 + 4 * index_ + (block_.backwards_ ? 3 - w : w), block_.backwards_);
        f(warp);
      }
    }
    Bits128 get(int thread, int offset) {
      Bits128 v{};
      block_.memory_.read(actor(thread), offset, &v, sizeof v);
      return v;
    }
    template <class T>
    void set(int thread, int offset, const T& value) {
      block_.memory_.write(actor(thread), offset, &value, sizeof value);
    }
    template <class T>
    T read(int offset) {
      T value{};
      for (const int a : actors_) block_.memory_.read(a, offset, &value, sizeof value);
      return value;
    }

    void wait(int barrier, int parity) { block_.wait(barrier, parity, actors_); }
    void arrive(int barrier) {
      for (const int a : actors_) {
        block_.barrier(barrier).arrive(a);
        block_.turns_.pause();
      }
    }
    void sync() {
      Clock all{};
      for (const int a : actors_) join(all, block_.memory_.know(a));
      for (const int a : actors_) {
        join(block_.memory_.know(a), all);
        block_.memory_.tick(a);
      }
    }
    void begin_turns(int groups) { groups_ = groups; }
    void take_turn() {
      if (groups_ == 1) return;
      block_.turns_.wait_until([&] { return block_.whose_turn_ == index_; });
    }
    void pass_turn(bool last) {
      if (groups_ == 1) return;
      if (block_.whose_turn_ != index_)
        throw std::logic_error("a group passed a turn that it did not have");
      block_.whose_turn_ = 1 - index_;
      last_turn_ = last;
      block_.turns_.pause();
    }
    void fence_async() {
      if (!block_.sabotage_.fence_async)
        for (const int a : actors_) block_.memory_.fence_async(a);
    }

    void fence() { fenced_ = !block_.sabotage_.fence; }
    template <class Sums>
    void multiply_shared(PerThread<Sums>& d, const Matrix64& left_matrix,
                         const Matrix64& right_matrix, bool add) {
      const EmulatedMatrix a(left_matrix), b(right_matrix);
      constexpr int n = sizeof(Sums) / 4 * 2;
      Product p = product(d, n, add);
      for (int w = 0; w < 4; ++w) {
        for (int row = 16 * w; row < 16 * w + 16; ++row)
          for (int k = 0; k < 16; k += 8) reads(p, w, a.k_major(row, k));
        for (int row = 0; row < n; ++row)
          for (int k = 0; k < 16; k += 8) reads(p, w, b.k_major(row, k));
      }
      p.compute = [this, a, b](float(&left)[64][16], float(&right)[16][256]) {
        for (int row = 0; row < 64; ++row)
          for (int k = 0; k < 16; ++k) left[row][k] = value(a.k_major(row, k));
        for (int row = 0; row < n; ++row)
          for (int k = 0; k < 16; ++k) right[k][row] = value(b.k_major(row, k));
      };
      open_.push_back(std::move(p));
    }
    template <class Sums, class Weights>
    void multiply_weights(PerThread<Sums>& d, PerThread<Weights>& a, int step,
                          const Matrix64& right_matrix) {
      const EmulatedMatrix b(right_matrix);
      constexpr int n = sizeof(Sums) / 4 * 2;
      Product p = product(d, n, true);
      for (int w = 0; w < 4; ++w)
        for (int k = 0; k < 16; ++k)
          for (int column = 0; column < n; column += 8) reads(p, w, b.mn_major(column, k));
      std::vector<FragmentA> before(128);
      for (int t = 0; t < 128; ++t) before[static_cast<size_t>(t)] = a[t].x[step];
      p.compute = [this, &a, before, step, b](float(&left)[64][16], float(&right)[16][256]) {
        for (int t = 0; t < 128; ++t) {
          const FragmentA& x = before[static_cast<size_t>(t)];
          if (std::memcmp(&x, &a[t].x[step], sizeof x) != 0)
            throw std::logic_error("weights were changed while a product read them");
          for (int r = 0; r < 4; ++r) {
            float* const to = &left[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][2 * (t % 4) + r / 2 * 8];
            to[0] = from_bf16(static_cast<uint16_t>(x.x[r]));
            to[1] = from_bf16(static_cast<uint16_t>(x.x[r] >> 16));
          }
        }
        for (int k = 0; k < 16; ++k)
          for (int column = 0; column < n; ++column)
            right[k][column] = value(b.mn_major(column, k));
      };
      open_.push_back(std::move(p));
    }
    void commit() {
      committed_.push_back(std::move(open_));
      open_.clear();
      fenced_ = false;
      block_.turns_.pause();
    }
    template <int N, class Sums>
    void wait_products(PerThread<Sums>&) {
      if (block_.sabotage_.products) return;
      for (; committed_.size() > N; committed_.pop_front())
        for (Product& p : committed_.front()) execute(p);
    }
    void finish() const {
      if (!open_.empty() || !committed_.empty())
        throw std::logic_error("a group ended with products on their way");
      if (!last_turn_) throw std::logic_error("the last turn of a group was not said to be");
    }

   private:
    struct Read {
      int actor, offset;
    };
    struct Product {
      std::function<float&(int, int)> sum;  // of (thread, register)
      int n;
      bool add;
      std::vector<Read> reads;
      std::function<void(float (&)[64][16], float (&)[16][256])> compute;
    };
    // Sums on their way: their values; in the registers there is this NaN.
    static constexpr uint32_t kOnItsWay = 0x7fc0dead;
    struct Shadow {
      std::function<float&(int, int)> sum;
      std::vector<float> values;  // [128][n / 2]
      int products;
    };

    int actor(int thread) const { return warp_actor(index_, thread / 32); }

    float value(int offset) const { return from_bf16(block_.memory_.element(offset)); }

    void reads(Product& p, int warp, int offset) {
      const int at = offset / 16 * 16;
      block_.memory_.begin_product(warp_actor(index_, warp), at);
      p.reads.push_back({warp_actor(index_, warp), at});
    }
    Shadow* shadow_of(float& first) {
      for (Shadow& s : shadows_)
        if (&s.sum(0, 0) == &first) return &s;
      return nullptr;
    }
    template <class Sums>
    Product product(PerThread<Sums>& d, int n, bool add) {
      if (!fenced_) throw std::logic_error("a product without fence()");
      Product p;
      p.sum = [&d](int thread, int i) -> float& { return d[thread].x[i]; };
      p.n = n;
      p.add = add;
      if (Shadow* const known = shadow_of(d[0].x[0])) {
        ++known->products;
        return p;
      }
      Shadow s{p.sum, {}, 1};
      for (int t = 0; t < 128; ++t)
        for (int i = 0; i < n / 2; ++i) {
          s.values.push_back(d[t].x[i]);
          d[t].x[i] = bits_float(kOnItsWay);
        }
      shadows_.push_back(std::move(s));
      return p;
    }
    void execute(Product& p) {
      static thread_local float left[64][16], right[16][256];
      p.compute(left, right);
      for (const Read& r : p.reads) block_.memory_.end_product(r.actor, r.offset);
      Shadow* const s = shadow_of(p.sum(0, 0));
      const auto half = static_cast<size_t>(p.n / 2);
      for (int row = 0; row < 64; ++row) {
        float sum[256] = {};
        const auto at = [&](int column) -> float& {
          const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
          const int i = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
          return s->values[static_cast<size_t>(thread) * half + static_cast<size_t>(i)];
        };
        if (p.add)
          for (int column = 0; column < p.n; ++column) sum[column] = at(column);
        for (int k = 0; k < 16; ++k)
          for (int column = 0; column < p.n; ++column)
            sum[column] += left[row][k] * right[k][column];
        for (int column = 0; column < p.n; ++column) at(column) = sum[column];
      }
      if (--s->products > 0) return;
      for (int t = 0; t < 128; ++t)
        for (size_t i = 0; i < half; ++i) {
          float& x = s->sum(t, static_cast<int>(i));
          if (float_bits(x) != kOnItsWay)
            throw std::logic_error("sums were touched while a product was on its way");
          x = s->values[static_cast<size_t>(t) * half + i];
        }
      shadows_.erase(shadows_.begin() + (s - shadows_.data()));
    }

    EmulatedHopper& block_;
    int index_;
    std::vector<int> actors_;
    bool fenced_ = false;
    int groups_ = 1;
    bool last_turn_ = true;  // none follows
    std::vector<Product> open_;
    std::deque<std::vector<Product>> committed_;
    std::vector<Shadow> shadows_;
  };

  int x() const { return x_; }
  int y() const { return y_; }
  void begin_barrier(int number, int count) { barrier(number).begin(count); }
  template <class P, class C>
  void start(const P& producer, const C& consumer) {
    std::vector<std::function<void()>> roles;
    roles.push_back([&] {
      Producer p(*this);
      producer(p);
    });
    for (int i = 0; i < kHopperGroups; ++i)
      roles.push_back([this, &consumer, i] {
        Group group(*this, i);
        consumer(group);
        group.finish();
      });
    turns_.run(roles);
    for (const TrackedBarrier& b : barriers_)
      if (!b.idle()) throw std::logic_error("a block ended with copies in flight");
  }

 private:
  TrackedBarrier& barrier(int number) { return barriers_.at(static_cast<size_t>(number)); }
  void wait(int number, int parity, const std::vector<int>& actors) {
    if (sabotage_.wait == number) return;
    TrackedBarrier& b = barrier(number);
    const int asked = sabotage_.early == number ? parity ^ 1 : parity;
    turns_.pause();
    turns_.wait_until([&] { return b.over(asked); });
    for (const int a : actors) b.learn(a);
  }

  TrackedMemory memory_;
  std::deque<TrackedBarrier> barriers_;
  Turns turns_;
  int x_, y_;
  bool backwards_;
  int whose_turn_ = 0;
  Sabotage sabotage_;
};

}  // namespace prefix::ops::gpu
