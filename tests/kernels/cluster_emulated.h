// The interface of kernels/body/attention_decode.h on the CPU: the blocks of a cluster, all their
// producers and warps taking turns at random (turns.h). As in hopper_emulated.h, accesses to shared
// memory have to be ordered by barriers that were really waited for (tracked_memory.h), also those
// to the memory of another block, which must not end before.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <stdexcept>
#include <vector>

#include "body/attention_decode.h"
#include "kernels/emulator.h"
#include "kernels/lanes_emulated.h"
#include "kernels/matrix_emulated.h"
#include "kernels/tracked_memory.h"
#include "kernels/turns.h"

namespace prefix::ops::gpu {

class EmulatedCluster {
 public:
  EmulatedCluster(size_t shared_bytes, int x, int y, int blocks, bool backwards, uint64_t seed,
                  const Sabotage& sabotage)
      : turns_(seed), random_(seed + 1), backwards_(backwards), sabotage_(sabotage) {
    for (int i = 0; i < blocks; ++i) blocks_.emplace_back(*this, shared_bytes, x + i, y, i);
  }

  class Warp;

  class Block {
   public:
    Block(EmulatedCluster& cluster, size_t shared_bytes, int x, int y, int rank)
        : cluster_(cluster), memory_(shared_bytes), x_(x), y_(y), rank_(rank) {
      for (int i = 0; i <= kDecodeBarriers; ++i) barriers_.emplace_back(memory_, i);
      barrier(kSync).begin(kDecodeWarps);
    }
    int x() const { return x_; }
    int y() const { return y_; }
    void begin_barrier(int number, int count) { barrier(number).begin(count); }
    // Its producer and its warps run when those of all blocks are known.
    template <class P, class C>
    void start(const P& producer, const C& consumer) {
      cluster_.roles_.push_back([this, producer] {
        Producer p(*this);
        producer(p);
      });
      for (int i = 0; i < kDecodeWarps; ++i)
        cluster_.roles_.push_back([this, consumer, i] {
          Warp warp(*this, i);
          consumer(warp);
        });
    }

   private:
    friend EmulatedCluster;
    friend Warp;
    static constexpr int kSync = kDecodeBarriers;  // of the warps

    class Producer {
     public:
      explicit Producer(Block& block) : block_(block) {}
      void wait(int barrier, int parity) { block_.wait(barrier, parity, kProducer); }
      void expect(int barrier, int bytes) { block_.barrier(barrier).expect(kProducer, bytes); }
      void copy(int to, const void* from, int bytes, int barrier) {
        block_.barrier(barrier).start_copy(kProducer, to, from, static_cast<size_t>(bytes));
      }
      template <class T>
      void set(int offset, const T& value) {
        block_.memory_.write(kProducer, offset, &value, sizeof value);
      }

     private:
      Block& block_;
    };

    TrackedBarrier& barrier(int number) { return barriers_.at(static_cast<size_t>(number)); }
    void wait(int number, int parity, int actor) {
      const Sabotage& sabotage = cluster_.sabotage_;
      if (sabotage.wait == number) return;
      TrackedBarrier& b = barrier(number);
      const int asked = sabotage.early == number ? parity ^ 1 : parity;
      cluster_.maybe_pause();
      cluster_.turns_.wait_until([&b, asked] { return b.over(asked); });
      b.learn(actor);
    }

    EmulatedCluster& cluster_;
    TrackedMemory memory_;
    std::deque<TrackedBarrier> barriers_;
    std::array<std::vector<uint64_t>, kDecodeWarps> asked_;  // matrices of joint products, by warp
    int x_, y_, rank_;
  };

  class Warp : public EmulatedLanes {
   public:
    Warp(Block& block, int index)
        : EmulatedLanes(index, block.cluster_.backwards_),
          block_(block),
          actor_(warp_actor(0, index)) {}

    int rank() const { return block_.rank_; }
    template <class T>
    T get(int, int offset) const {
      T value{};
      block_.memory_.read(actor_, offset, &value, sizeof value);
      return value;
    }
    template <class T>
    T read(int offset) const {
      return get<T>(0, offset);
    }
    template <class T>
    void set(int, int offset, const T& value) {
      block_.memory_.write(actor_, offset, &value, sizeof value);
    }
    template <bool transposed>
    void load_matrices(const Local<int>& at, Local<FragmentA>& out) {
      matrices<transposed>(
          out, [&](int lane, uint16_t* row) { block_.memory_.read(actor_, at[lane], row, 16); });
    }
    // The four warps of a group must ask for the same matrices in the same order (run()).
    template <int kTiles, int kSteps, bool transposed, class D, class A, class B>
    void multiply_together(bool add, const D& d, const A& a, const B& b) {
      Local<FragmentC> sums[kTiles];
      for (int t = 0; t < kTiles; ++t)
        for (int lane = 0; lane < 32; ++lane)
          sums[t][lane] = add ? d(t, lane) : FragmentC{{0, 0, 0, 0}};
      for (int k = 0; k < kSteps; ++k) {
        const EmulatedMatrix right(b(k));
        block_.asked_[static_cast<size_t>(index())].push_back(right.bits());
        Local<FragmentA> left;
        for (int lane = 0; lane < 32; ++lane) left[lane] = a(k, lane);
        for (int t = 0; t < kTiles; ++t) mma(sums[t], left, operand<transposed>(right, 8 * t));
      }
      for (int t = 0; t < kTiles; ++t)
        for (int lane = 0; lane < 32; ++lane) d(t, lane) = sums[t][lane];
    }
    template <class T>
    T get_from(int rank, int, int offset) const {
      T value{};
      EmulatedCluster& cluster = block_.cluster_;
      TrackedMemory& memory = cluster.blocks_.at(static_cast<size_t>(rank)).memory_;
      const int64_t epoch = block_.memory_.epoch(actor_);
      if (rank == block_.rank_) {
        memory.read(actor_, offset, &value, sizeof value);
      } else {
        memory.read_remote(cluster.known_at(epoch, rank), epoch, offset, &value, sizeof value);
      }
      return value;
    }

    void wait(int barrier, int parity) { block_.wait(barrier, parity, actor_); }
    void arrive(int barrier) { block_.barrier(barrier).arrive(actor_); }
    void sync() {
      if (syncs_++ == block_.cluster_.sabotage_.sync) return;
      block_.barrier(Block::kSync).arrive(actor_);
      block_.wait(Block::kSync, phase_, actor_);
      phase_ ^= 1;
    }
    void leave_cluster() { sync_cluster(); }
    void sync_cluster() {
      if (cluster_syncs_++ != block_.cluster_.sabotage_.sync_cluster)
        block_.cluster_.sync(block_, actor_);
    }

   private:
    // 16 by 8, from a column on.
    template <bool transposed>
    Local<FragmentB> operand(const EmulatedMatrix& m, int column) {
      uint16_t x[16][8], piece[8];  // eight columns, or eight of k, lie together
      for (int i = 0; i < 16; ++i) {
        const int at = transposed ? m.mn_major(column, i) : m.k_major(column + i % 8, i / 8 * 8);
        block_.memory_.read(actor_, at, piece, sizeof piece);
        for (int j = 0; j < 8; ++j) (transposed ? x[i][j] : x[i / 8 * 8 + j][i % 8]) = piece[j];
      }
      Local<FragmentB> out;
      for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < 2; ++r) {
          const int k = lane % 4 * 2 + 8 * r;
          out[lane].x[r] = static_cast<uint32_t>(x[k + 1][lane / 4]) << 16 | x[k][lane / 4];
        }
      return out;
    }

    Block& block_;
    int actor_;
    int syncs_ = 0, cluster_syncs_ = 0, phase_ = 0;
  };

  // Runs body(block) of all blocks at the same time.
  template <class F>
  void run(const F& body) {
    for (Block& block : blocks_) body(block);
    if (roles_.empty()) return;  // nothing to do
    if (roles_.size() != blocks_.size() * (kDecodeWarps + 1))
      throw std::logic_error("blocks of a cluster ended before the others began");
    turns_.run(roles_);
    for (Block& block : blocks_) {
      for (const TrackedBarrier& b : block.barriers_)
        if (!b.idle()) throw std::logic_error("a block ended with copies in flight");
      for (size_t w = 0; w < kDecodeWarps; ++w)
        if (block.asked_[w] != block.asked_[w / 4 * 4])
          throw std::logic_error("the warps of a group do not multiply together");
      for (int w = 0; w < kDecodeWarps; ++w)
        if (block.memory_.last_remote() >= block.memory_.epoch(warp_actor(0, w)))
          throw std::logic_error("a block ended while another might read its memory");
    }
  }

 private:
  // Not at every wait: it takes microseconds.
  void maybe_pause() {
    if (random_() % 4 == 0) turns_.pause();
  }
  // A barrier of all warps.
  void sync(Block& block, int actor) {
    const size_t epoch = known_.size();
    if (arrived_ == 0) arriving_.assign(blocks_.size(), Clock{});
    join(arriving_[static_cast<size_t>(block.rank_)], block.memory_.know(actor));
    block.memory_.tick(actor);
    if (++arrived_ == static_cast<int>(blocks_.size()) * kDecodeWarps) {
      known_.push_back(arriving_);
      arrived_ = 0;
    }
    turns_.wait_until([this, epoch] { return known_.size() > epoch; });
    join(block.memory_.know(actor), known_[epoch][static_cast<size_t>(block.rank_)]);
    block.memory_.next_epoch(actor);
  }
  // What a block knew when an epoch began.
  const Clock& known_at(int64_t epoch, int rank) const {
    static const Clock nothing{};
    return epoch == 0 ? nothing : known_[static_cast<size_t>(epoch - 1)][static_cast<size_t>(rank)];
  }

  Turns turns_;
  std::minstd_rand random_;
  bool backwards_;
  Sabotage sabotage_;
  std::deque<Block> blocks_;
  std::vector<std::function<void()>> roles_;
  int arrived_ = 0;
  std::vector<Clock> arriving_;           // of each block
  std::deque<std::vector<Clock>> known_;  // when each epoch began
};

}  // namespace prefix::ops::gpu
