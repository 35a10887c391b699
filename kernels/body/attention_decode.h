// Attention of small steps for Hopper: a cluster of blocks of threads does up to 128 packed rows of
// a kv head, and its blocks share out the pages (src/ops/gpu/decode_schedule.h draws the plan).
//
//   a block     producer     page, page, page ...     one bulk copy each: K and V lie together
//                  │ full             ▲ empty          a ring of 12 slots, mbarriers
//                  ▼                  │
//   warp 0..7   row tile = warp % tiles; the plan says which warps take a page: one of each row tile
//               (body/attention_warp.h), or four together whose products are one (wgmma), rows 0..63
//               or 64..127 of the block. A block of 33 to 64 rows has them in both groups of four,
//               which take such pages in turn
//
//   then        [ states of the warps ] ──> [ state of the block ]      shared memory
//                                             │ cluster barrier
//   block r     rows r, r + c, ...  of all blocks of the cluster, in their order ──> result
//                                             │ cluster barrier: no block leaves while it is read
//
// All warps wait for every page, also for those of other row tiles: then none is ahead of another
// by more than the ring, and each counts once for a slot that is empty again.
//
// Queries come from global memory as operands, since every warp needs its own rows only. The order
// of all sums is given by the plan, so results do not depend on timing; but they depend on how the
// step was cut: never with `invariant`.
#pragma once

#include "body/attention_warp.h"
#include "body/hopper.h"

namespace prefix::ops::gpu {

// Offsets in shared memory; slots begin at multiples of 1 KB, as the swizzle asks for.
template <int D>
struct DecodeShared {
  static constexpr int kSlotBytes = attention_slot_bytes(D);
  static constexpr int slot(int i) { return i * kSlotBytes; }
  // What a slot holds: DecodePage.
  static constexpr int kHeaders = kDecodeSlots * kSlotBytes;
  static constexpr int header(int i) { return kHeaders + i * 16; }
  static constexpr int kBarriers = kHeaders + kDecodeSlots * 16;
  static_assert(kBarriers + kDecodeBarriers * 8 == decode_shared_bytes(D));

  // Afterwards: the states of the warps; those of the block replace the first of each row tile,
  // with m and l of its rows apart: [kDecodeRows][4].
  static constexpr int state(int warp) { return warp * WarpSoftmaxState<D>::kBytes; }
  static constexpr int kMaxima = state(kDecodeWarps);
  static constexpr int maximum(int row) { return kMaxima + row * 16; }
  static_assert(maximum(kDecodeRows) <= kHeaders && kMaxima % 16 == 0);
};

constexpr int decode_full(int slot) { return slot; }
constexpr int decode_empty(int slot) { return kDecodeSlots + slot; }

// A slot, and the parity of its phase.
struct DecodeSlot {
  int index = 0;
  int parity = 0;
  PREFIX_BODY void advance() {
    if (++index < kDecodeSlots) return;
    index = 0;
    parity ^= 1;
  }
};

// The producer: brings the pages of a split.
template <int D, class Producer>
PREFIX_BODY void bring_pages(Producer& producer, const DecodeKernelArgs& a,
                             const DecodeSplit& split, int head) {
  using Shared = DecodeShared<D>;
  constexpr int kBatch = 8;  // entries of the list that are loaded at once
  const auto load = [&](int at, DecodePage(&out)[kBatch]) {
    unrolled<kBatch>([&](int i) { out[i] = a.list[smaller(at + i, split.page_end - 1)]; });
  };
  DecodeSlot slot;
  DecodePage now[kBatch], next[kBatch];
  if (split.page_begin < split.page_end) load(split.page_begin, next);
  for (int at = split.page_begin; at < split.page_end; at += kBatch) {
    unrolled<kBatch>([&](int i) { now[i] = next[i]; });
    load(at + kBatch, next);  // on their way meanwhile
    PREFIX_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      if (at + i >= split.page_end) break;
      producer.wait(decode_empty(slot.index), slot.parity ^ 1);
      producer.set(Shared::header(slot.index), now[i]);
      producer.expect(decode_full(slot.index), Shared::kSlotBytes);
      producer.copy(
          Shared::slot(slot.index),
          a.pages.layer + now[i].page * a.pages.page_stride + head * 2 * a.pages.block_bytes,
          Shared::kSlotBytes, decode_full(slot.index));
      slot.advance();
    }
  }
}

template <int D, class Warp>
class DecodeConsumer {
  using Shared = DecodeShared<D>;
  using SoftmaxState = WarpSoftmaxState<D>;
  using Rows = WarpRows<D, Warp>;
  template <class T>
  using Local = typename Warp::template Local<T>;
  static constexpr int kSteps = D / 16;  // of Q K^T
  static constexpr int kOwn = D / 32;    // columns of a lane when states are merged
  static constexpr int kMaxStates = 8;   // of a row: of the warps of a block, of the blocks

  struct Queries {
    FragmentA q[kSteps];
  };
  using Columns = Pack<float, kOwn>;  // of a lane
  // Of a row of a partial result.
  struct Partial {
    Floats2 ml;
    Columns o;
  };

 public:
  PREFIX_BODY DecodeConsumer(Warp& warp, const DecodeKernelArgs& a, const DecodeSplit& split,
                             int head)
      : warp_(warp),
        a_(a),
        split_(split),
        head_(head),
        tiles_(decode_tiles(split.rows)),
        first_(warp.index() % tiles_ * 16) {}

  PREFIX_BODY void run() {
    load_queries();
    const auto range = Rows::begin(warp_, sums_, first_, [&](int row) {
      return row < split_.rows ? a_.positions[(split_.row_begin + row) / a_.group_heads] : -1;
    });
    walk(range);
    warp_.sync();  // pages are not read any more
    Rows::store(warp_, sums_, Shared::state(warp_.index()));
    warp_.sync();
    merge_warps();
    warp_.sync_cluster();
    merge_blocks();
    warp_.leave_cluster();
  }

 private:
  PREFIX_BODY int64_t head_at(int row, int64_t ld) const {  // row: of the block
    return gpu::head_at(a_, split_.row_begin + row, head_, D, ld);
  }

  PREFIX_BODY void load_queries() {
    const auto* const q = static_cast<const uint16_t*>(a_.q);
    warp_.each([&](int lane) {
      unrolled<2>([&](int j) {
        const int row = first_ + lane / 4 + 8 * j;
        const uint16_t* const from =
            q + (row < split_.rows ? head_at(row, a_.ld_q) : 0) + 2 * (lane % 4);
        unrolled<kSteps>([&](int k) {
          unrolled<2>([&](int half) {
            queries_[lane].q[k].x[j + 2 * half] =
                row < split_.rows ? load_whole<uint32_t>(from + 16 * k + 8 * half) : 0u;
          });
        });
      });
    });
  }

  PREFIX_BODY void walk(const typename Rows::Range& range) {
    const int group = decode_group(warp_.index() / 4);
    DecodeSlot slot;
    for (int i = split_.page_begin; i < split_.page_end; ++i) {
      warp_.wait(decode_full(slot.index), slot.parity);
      const auto entry = warp_.template read<DecodePage>(Shared::header(slot.index));
      const WarpPage page{Shared::slot(slot.index), entry.block, entry.low, entry.high};
      if ((entry.warps & group) == group) {
        take_together(range, page);
      } else if ((entry.warps >> warp_.index() & 1) != 0) {
        Rows::take(warp_, sums_, range, first_, split_.rows, page, a_.scale_log2,
                   [&](int k, Local<FragmentA>& q) {
                     warp_.each([&](int lane) { q[lane] = queries_[lane].q[k]; });
                   });
      }
      warp_.arrive(decode_empty(slot.index));
      slot.advance();
    }
  }

  // This warp's part of a page that its group takes. Its rows may see nothing of it: then all their
  // weights are 0.
  PREFIX_BODY void take_together(const typename Rows::Range& range, const WarpPage& page) {
    Local<FragmentC> s[4];
    Local<FragmentA> p[2];
    const int slot = page.slot / 16;
    warp_.template multiply_together<4, kSteps, false>(
        false, [&](int tile, int lane) -> FragmentC& { return s[tile][lane]; },
        [&](int k, int lane) -> const FragmentA& { return queries_[lane].q[k]; },
        [&](int k) { return matrix(slot + (k / 4 * Rows::kStrip + k % 4 * 32) / 16, 16, 1024); });
    Rows::weigh(warp_, sums_, range, first_, split_.rows, page, a_.scale_log2, s, p);
    warp_.template multiply_together<Rows::kColumns, 2, true>(
        true, [&](int tile, int lane) -> FragmentC& { return sums_[lane].o[tile]; },
        [&](int k, int lane) -> const FragmentA& { return p[k][lane]; },
        [&](int k) {
          return matrix(slot + (Rows::kValues + k * 16 * 128) / 16, Rows::kStrip, 1024);
        });
  }
  // Warps of a row tile: tile, tile + tiles_, ...
  PREFIX_BODY int warps_of(int tile) const { return (kDecodeWarps - 1 - tile) / tiles_ + 1; }

  // Merges up to kMaxStates states of a row, in their order: get(i, lane) reads the i-th.
  template <class Get>
  PREFIX_BODY void merge(int count, Local<Partial>& out, const Get& get) {
    warp_.each([&](int lane) {
      Partial parts[kMaxStates];  // all on their way before the first is needed
      unrolled<kMaxStates>([&](int i) {
        if (i < count) parts[i] = get(i, lane);
      });
      Partial& sum = out[lane];
      float m = minus_infinity(), l = 0;
      unrolled<kMaxStates>([&](int i) {
        if (i < count) m = larger(parts[i].ml.x[0], m);
      });
      const float shift = m == minus_infinity() ? 0.0f : m;
      unrolled<kOwn>([&](int c) { sum.o.x[c] = 0; });
      unrolled<kMaxStates>([&](int i) {
        if (i >= count) return;
        const float weight = exp2_of(parts[i].ml.x[0] - shift);
        l += parts[i].ml.x[1] * weight;
        unrolled<kOwn>([&](int c) { sum.o.x[c] += parts[i].o.x[c] * weight; });
      });
      sum.ml = {{m, l}};
    });
  }

  static PREFIX_BODY int columns_of(int warp, int row, int lane) {
    return Shared::state(warp) + (row % 16 * SoftmaxState::kRow + lane * kOwn) * 4;
  }

  // The states of the warps become those of the block: a warp per row.
  PREFIX_BODY void merge_warps() {
    for (int row = warp_.index(); row < split_.rows; row += kDecodeWarps) {
      const int tile = row / 16;
      Local<Partial> sum;
      merge(warps_of(tile), sum, [&](int i, int lane) -> Partial {
        const int warp = tile + i * tiles_;
        return {warp_.template get<Floats2>(
                    lane, Shared::state(warp) + (SoftmaxState::kMaxima + row % 16 * 2) * 4),
                warp_.template get<Columns>(lane, columns_of(warp, row, lane))};
      });
      warp_.each([&](int lane) {
        const Partial& p = sum[lane];
        warp_.set(lane, columns_of(tile, row, lane), p.o);
        if (lane == 0) warp_.set(lane, Shared::maximum(row), Floats4{{p.ml.x[0], p.ml.x[1], 0, 0}});
      });
    }
  }

  // Rows of this block of the cluster, from the states of all its blocks.
  PREFIX_BODY void merge_blocks() {
    for (int row = warp_.rank() + a_.cluster * warp_.index(); row < split_.rows;
         row += a_.cluster * kDecodeWarps) {
      Local<Partial> sum;
      merge(a_.cluster, sum, [&](int i, int lane) -> Partial {
        return {warp_.template get_from<Floats2>(i, lane, Shared::maximum(row)),
                warp_.template get_from<Columns>(i, lane, columns_of(row / 16, row, lane))};
      });
      uint16_t* const out = static_cast<uint16_t*>(a_.out) + head_at(row, a_.ld_out);
      warp_.each([&](int lane) {
        const Partial& p = sum[lane];
        const float inverse = p.ml.x[1] == 0 ? 0.0f : 1.0f / p.ml.x[1];
        PREFIX_UNROLL
        for (int c = 0; c < kOwn; c += 2)
          store_whole(out + lane * kOwn + c, pack_bf16(p.o.x[c] * inverse, p.o.x[c + 1] * inverse));
      });
    }
  }

  Warp& warp_;
  const DecodeKernelArgs& a_;
  const DecodeSplit split_;
  const int head_;
  const int tiles_;  // row tiles of the block; the last ones may be empty
  const int first_;  // row of this warp's
  Local<Queries> queries_;
  Local<typename Rows::Sums> sums_;
};

template <int D, class Block>
PREFIX_BODY void attention_decode(Block& block, const DecodeKernelArgs& a) {
  const DecodeSplit split = a.splits[block.x()];
  if (split.rows == 0) return;  // nor have the other blocks of the cluster
  const int head = block.y();
  for (int slot = 0; slot < kDecodeSlots; ++slot) {
    block.begin_barrier(decode_full(slot), 1);
    block.begin_barrier(decode_empty(slot), kDecodeWarps);
  }
  block.start([&a, split, head](auto& producer) { bring_pages<D>(producer, a, split, head); },
              [&a, split, head](auto& warp) {
                using Warp = std::remove_reference_t<decltype(warp)>;
                DecodeConsumer<D, Warp>(warp, a, split, head).run();
              });
}

}  // namespace prefix::ops::gpu
