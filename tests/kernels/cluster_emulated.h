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
#include "kernels/lanes_emulated.h"
#include "kernels/matrix_emulated.h"
#include "kernels/tracked_memory.h"
#include "kernels/turns.h"

namespace prefix::ops::gpu {

class EmulatedCluster {
 public:
  EmulatedCluster(Turns& turns, const Sabotage& sabotage, size_t shared_bytes, int x, int y,
                  int blocks, bool backwards)
      : turns_(turns), backwards_(backwards) {
    for (int i = 0; i < blocks; ++i) blocks_.emplace_back(*this, sabotage, shared_bytes, x, y, i);
  }

  class Warp;

  class Block : public TrackedBlock {
   public:
    Block(EmulatedCluster& cluster, const Sabotage& sabotage, size_t shared_bytes, int x, int y,
          int rank)
        : TrackedBlock(cluster.turns_, sabotage, shared_bytes, kDecodeBarriers + 1, x + rank, y),
          cluster_(cluster),
          rank_(rank) {
      begin_barrier(kSync, kDecodeWarps);
    }
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

    EmulatedCluster& cluster_;
    std::array<std::vector<uint64_t>, kDecodeWarps> asked_;  // matrices of joint products, by warp
    int rank_;
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
        const EmulatedMatrix right(block_.memory_, b(k), transposed);
        block_.asked_[index()].push_back(right.bits());
        right.each_piece(0, 8 * kTiles, [&](int at) { get<Bits128>(0, at); });
        Local<FragmentA> left;
        for (int lane = 0; lane < 32; ++lane) left[lane] = a(k, lane);
        for (int t = 0; t < kTiles; ++t) mma(sums[t], left, right.columns(8 * t));
      }
      for (int t = 0; t < kTiles; ++t)
        for (int lane = 0; lane < 32; ++lane) d(t, lane) = sums[t][lane];
    }
    template <class T>
    T get_from(int rank, int, int offset) const {
      T value{};
      EmulatedCluster& cluster = block_.cluster_;
      TrackedMemory& memory = cluster.blocks_.at(rank).memory_;
      const int64_t epoch = block_.memory_.epoch(actor_);
      if (rank == block_.rank_) {
        memory.read(actor_, offset, &value, sizeof value);
      } else {
        memory.read_remote(cluster.known_at(epoch, rank), epoch, offset, &value, sizeof value);
      }
      return value;
    }

    void wait(int barrier, int parity) { block_.wait(barrier, parity, {&actor_, 1}); }
    void arrive(int barrier) { block_.barrier(barrier).arrive(actor_); }
    void sync() {
      if (syncs_++ == block_.sabotage_.sync) return;
      block_.barrier(Block::kSync).arrive(actor_);
      block_.wait(Block::kSync, phase_, {&actor_, 1});
      phase_ ^= 1;
    }
    void leave_cluster() { sync_cluster(); }
    void sync_cluster() {
      if (cluster_syncs_++ != block_.sabotage_.sync_cluster) block_.cluster_.sync(block_, actor_);
    }

   private:
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
      block.finish();
      for (size_t w = 0; w < kDecodeWarps; ++w)
        if (block.asked_[w] != block.asked_[w / 4 * 4])
          throw std::logic_error("the warps of a group do not multiply together");
      for (int w = 0; w < kDecodeWarps; ++w)
        if (block.memory_.last_remote() >= block.memory_.epoch(warp_actor(0, w)))
          throw std::logic_error("a block ended while another might read its memory");
    }
  }

 private:
  // A barrier of all warps.
  void sync(Block& block, int actor) {
    const size_t epoch = known_.size();
    if (arrived_ == 0) arriving_.assign(blocks_.size(), Clock{});
    join(arriving_[block.rank_], block.memory_.know(actor));
    block.memory_.tick(actor);
    if (++arrived_ == static_cast<int>(blocks_.size()) * kDecodeWarps) {
      known_.push_back(arriving_);
      arrived_ = 0;
    }
    turns_.wait_until([this, epoch] { return known_.size() > epoch; });
    join(block.memory_.know(actor), known_[epoch][block.rank_]);
    block.memory_.next_epoch(actor);
  }
  // What a block knew when an epoch began.
  const Clock& known_at(int64_t epoch, int rank) const {
    static const Clock nothing{};
    return epoch == 0 ? nothing : known_[epoch - 1][rank];
  }

  Turns& turns_;
  bool backwards_;
  std::deque<Block> blocks_;
  std::vector<std::function<void()>> roles_;
  int arrived_ = 0;
  std::vector<Clock> arriving_;           // of each block
  std::deque<std::vector<Clock>> known_;  // when each epoch began
};

}  // namespace prefix::ops::gpu
