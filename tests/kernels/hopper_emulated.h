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

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

#include "body/hopper.h"
#include "kernels/lanes_emulated.h"
#include "kernels/matrix_emulated.h"
#include "kernels/tracked_memory.h"
#include "kernels/turns.h"

namespace prefix::ops::gpu {

class EmulatedHopper : public TrackedBlock {
 public:
  EmulatedHopper(Turns& turns, const Sabotage& sabotage, size_t shared_bytes, int x, bool backwards)
      : TrackedBlock(turns, sabotage, shared_bytes, kHopperBarriers, x, 0), backwards_(backwards) {}

  class Group {
   public:
    using Warp = EmulatedLanes;
    template <class T>
    class PerThread {
     public:
      explicit PerThread(Group&) : warps_(4) {}
      T& operator[](int thread) { return warps_[thread / 32][thread % 32]; }
      Warp::Local<T>& of(const Warp& warp) { return warps_[warp.index() % 4]; }

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
    template <class T>
    void set(int thread, int offset, const T& value) {
      block_.memory_.write(warp_actor(index_, thread / 32), offset, &value, sizeof value);
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
    template <class T>
    void multiply_shared(PerThread<T>& d, const Matrix64& left, const Matrix64& right, bool add) {
      const EmulatedMatrix a(block_.memory_, left);
      Product& p = begin(d, EmulatedMatrix(block_.memory_, right), add);
      for (int w = 0; w < 4; ++w) begin_reads(p, w, a, 16 * w, 16);
      p.left = [a](int warp) { return a.rows(16 * warp); };
    }
    template <class T, class Weights>
    void multiply_weights(PerThread<T>& d, PerThread<Weights>& a, int step, const Matrix64& right) {
      Product& p = begin(d, EmulatedMatrix(block_.memory_, right, true), true);
      std::vector<FragmentA> before(128);
      for (int t = 0; t < 128; ++t) before[t] = a[t].x[step];
      p.left = [&a, before, step](int warp) {
        Warp::Local<FragmentA> out;
        for (int lane = 0; lane < 32; ++lane) {
          const int thread = 32 * warp + lane;
          out[lane] = a[thread].x[step];
          if (std::memcmp(&out[lane], &before[thread], sizeof out[lane]) != 0)
            throw std::logic_error("weights were changed while a product read them");
        }
        return out;
      };
    }
    void commit() {
      committed_.push_back(std::move(open_));
      open_.clear();
      fenced_ = false;
      block_.turns_.pause();
    }
    template <int N, class T>
    void wait_products(PerThread<T>&) {
      if (block_.sabotage_.products) return;
      for (; committed_.size() > N; committed_.pop_front())
        for (const Product& p : committed_.front()) execute(p);
    }
    void finish() const {
      if (!open_.empty() || !committed_.empty())
        throw std::logic_error("a group ended with products on their way");
      if (!last_turn_) throw std::logic_error("the last turn of a group was not said to be");
    }

   private:
    // Of products that are on their way: their values; in the registers there is this NaN.
    static constexpr uint32_t kOnItsWay = 0x7fc0dead;
    struct Sums {
      std::function<float*(int thread)> registers;
      std::vector<Warp::Local<FragmentC>> values;  // [4 warps][tiles of eight columns]
      int products = 0;
    };
    struct Read {
      int actor, offset;
    };
    struct Product {
      float* sums;  // key in sums_
      std::function<Warp::Local<FragmentA>(int warp)> left;
      EmulatedMatrix right;
      bool add;
      std::vector<Read> reads;
    };

    // f(register, value) for each of the sums.
    template <class F>
    static void each_sum(Sums& sums, const F& f) {
      const size_t tiles = sums.values.size() / 4;
      for (int t = 0; t < 128; ++t)
        for (size_t i = 0; i < 4 * tiles; ++i)
          f(sums.registers(t)[i],
            sums.values[static_cast<size_t>(t / 32) * tiles + i / 4][t % 32].x[i % 4]);
    }
    template <class T>
    Product& begin(PerThread<T>& d, const EmulatedMatrix& right, bool add) {
      if (!fenced_) throw std::logic_error("a product without fence()");
      constexpr int kTiles = static_cast<int>(sizeof(T) / sizeof(FragmentC));
      Sums& sums = sums_[d[0].x];
      if (sums.products++ == 0) {
        sums.registers = [&d](int thread) { return d[thread].x; };
        sums.values.resize(4 * kTiles);
        each_sum(sums, [](float& x, float& value) {
          value = x;
          x = bits_float(kOnItsWay);
        });
      }
      Product& p = open_.emplace_back(Product{d[0].x, {}, right, add, {}});
      for (int w = 0; w < 4; ++w) begin_reads(p, w, right, 0, 8 * kTiles);
      return p;
    }
    void begin_reads(Product& p, int warp, const EmulatedMatrix& m, int begin, int count) {
      m.each_piece(begin, count, [&](int offset) {
        block_.memory_.begin_product(warp_actor(index_, warp), offset);
        p.reads.push_back({warp_actor(index_, warp), offset});
      });
    }
    void execute(const Product& p) {
      Sums& sums = sums_.at(p.sums);
      const size_t tiles = sums.values.size() / 4;
      for (int w = 0; w < 4; ++w) {
        const Warp::Local<FragmentA> left = p.left(w);
        for (size_t c = 0; c < tiles; ++c) {
          Warp::Local<FragmentC>& sum = sums.values[static_cast<size_t>(w) * tiles + c];
          if (!p.add) sum = {};
          Warp::mma(sum, left, p.right.columns(8 * static_cast<int>(c)));
        }
      }
      for (const Read& r : p.reads) block_.memory_.end_product(r.actor, r.offset);
      if (--sums.products > 0) return;
      each_sum(sums, [](float& x, float value) {
        if (float_bits(x) != kOnItsWay)
          throw std::logic_error("sums were touched while a product was on its way");
        x = value;
      });
      sums_.erase(p.sums);
    }

    EmulatedHopper& block_;
    int index_;
    std::vector<int> actors_;
    bool fenced_ = false;
    int groups_ = 1;
    bool last_turn_ = true;  // none follows
    std::vector<Product> open_;
    std::deque<std::vector<Product>> committed_;
    std::map<float*, Sums> sums_;  // by their first register
  };

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
    finish();
  }

 private:
  bool backwards_;
  int whose_turn_ = 0;
};

}  // namespace prefix::ops::gpu
