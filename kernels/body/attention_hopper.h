// The wide items of segment attention (src/ops/gpu/attention_schedule.h) for Hopper: products of
// whole warpgroups from shared memory, pages brought by the copy engine.
//
//   an item and kv head: up to 128 packed rows, tiles of four pages (128 keys)
//
//   one block a processor, item after item:
//
//   producer    K 0, K 1, V 0, K 2, V 1 ...     a page is a few bulk copies; those of the next item
//                 │ full            ▲ empty     come while this one ends
//                 ▼                 │                         two stages of each, mbarriers
//   group 0, 1  rows 0..63, 64..127
//
//               S = Q K^T of tile j is issued, then O += P V of tile j - 1;
//               while that runs: mask, maximum, P = 2^(S - m) of tile j
//
//   tensor cores   [S 0][O 0] [S 1][O 1] [S 0][O 0] ...       the groups issue in turn: one has its
//   group 0                   [ softmax ]                     softmax while the products of the
//   group 1        softmax ]             [ softmax ]          other one run
//
// A tile takes the next four pages of the item, whatever run they are of, as the plan lists them. Scores
// that a row must not see are -infinity by selection; their values, which are finite in all pages,
// are multiplied by 0.
//
// One softmax step is 128 keys wide and begins where the item begins: other bits than
// body/attention.h, so never with `invariant`.
#pragma once

#include "body/attention_hopper_pages.h"
#include "body/hopper.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// A warpgroup with 64 rows of the item.
template <int D, class Group>
class HopperConsumer {
  using Shared = HopperShared<D>;
  using Warp = typename Group::Warp;
  template <class T>
  using Local = typename Warp::template Local<T>;
  template <class T>
  using PerThread = typename Group::template PerThread<T>;

  static constexpr int kTiles = Shared::kKeys / 8;  // 8-column tiles of S
  static constexpr int kColumns = D / 8;            // of O
  static constexpr int kSteps = Shared::kKeys / 16;

  struct Scores {
    float x[Shared::kKeys / 2];  // FragmentC of each 8-column tile
  };
  struct Output {
    float x[D / 2];
  };
  struct Weights {
    FragmentA x[kSteps];
  };
  // Of the queries, 16 bytes each.
  static constexpr int kAcross = D / 8;         // of a row
  static constexpr int kApart = 128 / kAcross;  // rows of a thread
  static constexpr int kPieces = kHopperRows / kApart;
  static_assert(kApart % 8 == 0);
  struct Pieces {
    Bits128 x[kPieces];
  };
  struct Sums {
    float m[2], l[2];  // of rows g and g + 8 of the warp; m is scaled, l of this lane's keys only
    float keep[2];     // what the last step leaves of O
    int position[2];   // -1: there is no such row
  };

 public:
  PREFIX_BODY HopperConsumer(Group& group, const AttentionKernelArgs& a, int block)
      : group_(group),
        a_(a),
        items_(a, block),
        first_(kHopperRows * group.index()),
        scores_(group),
        output_(group),
        weights_(group),
        sums_(group),
        queries_(group) {}

  // An item's description comes while the one before is walked, its queries while that one ends.
  PREFIX_BODY void run() {
    bool more = items_.take(next_);
    load_queries();
    for (int tile = 0; more;) {
      item_ = next_;
      more = items_.take(next_);
      const int end = tile + group_.uniform((item_.page_end - item_.page_begin) / Shared::kPages);
      if (first_ < item_.rows) {
        walk(tile, end);
      } else {
        for (int at = tile; at < end; ++at) skip(at);
        load_queries();
      }
      tile = end;
    }
  }

 private:
  // Tiles [begin, end), at least one.
  PREFIX_BODY void walk(int begin, int end) {
    start();
    store_queries();
    group_.wait(key_full(stage_of(begin)), parity_of(begin));
    int masked = masked_of(begin);
    group_.fence();
    multiply_keys(stage_of(begin));
    group_.commit();
    group_.template wait_products<0>(scores_);
    group_.arrive(key_empty(stage_of(begin)));
    softmax(begin, masked);
    group_.begin_turns(item_.rows > kHopperRows ? 2 : 1);
    for (int tile = begin + 1; tile < end; ++tile) {
      const int stage = stage_of(tile), before = stage_of(tile - 1);
      // Here, at the head of the loop: in the block of the softmax, the compiler moves the wait to
      // before it, and then nothing runs beside it.
      group_.template wait_products<0>(output_);
      if (tile > begin + 1) group_.arrive(value_empty(stage_of(tile - 2)));
      scale();
      pack();
      group_.wait(key_full(stage), parity_of(tile));
      masked = masked_of(tile);
      group_.take_turn();
      group_.fence();
      multiply_keys(stage);
      group_.commit();
      group_.wait(value_full(before), parity_of(tile - 1));
      group_.fence();
      multiply_values(before);
      group_.commit();
      group_.pass_turn(tile + 1 == end);
      group_.template wait_products<1>(scores_);
      group_.arrive(key_empty(stage));
      softmax(tile, masked);
    }
    const int last = end - 1;
    group_.template wait_products<0>(output_);
    if (last > begin) group_.arrive(value_empty(stage_of(last - 1)));
    scale();
    pack();
    group_.wait(value_full(stage_of(last)), parity_of(last));
    group_.fence();
    multiply_values(stage_of(last));
    group_.commit();
    load_queries();
    group_.template wait_products<0>(output_);
    group_.arrive(value_empty(stage_of(last)));
    write();
  }

  static PREFIX_BODY int stage_of(int tile) {
    return static_cast<int>(static_cast<unsigned>(tile) % Shared::kStages);
  }
  static PREFIX_BODY int parity_of(int tile) {
    return static_cast<int>(static_cast<unsigned>(tile) / Shared::kStages % 2);
  }
  // A tile of an item that has no rows for this group.
  PREFIX_BODY void skip(int tile) {
    group_.wait(key_full(stage_of(tile)), parity_of(tile));
    group_.arrive(key_empty(stage_of(tile)));
    group_.wait(value_full(stage_of(tile)), parity_of(tile));
    group_.arrive(value_empty(stage_of(tile)));
  }
  // The groups that have rows which do not see all of the tile; once its keys are there.
  PREFIX_BODY int masked_of(int tile) {
    return group_.uniform(group_.template read<WidePage>(Shared::header(tile)).masked);
  }

  // Of this lane: row g of the warp, or g + 8.
  PREFIX_BODY int row_of(Warp& warp, int lane, int j) const {
    return first_ + warp.index() % 4 * 16 + lane / 4 + 8 * j;
  }

  // Those of the next item: all on their way before the first is stored. A thread has pieces of one
  // column, of rows that are a multiple of eight apart: the swizzle is the same for all of them. Rows
  // that are not there are the last one, and come to nothing: they have no position.
  PREFIX_BODY void load_queries() {
    if (next_.rows == 0) return;
    const auto* const q = static_cast<const uint16_t*>(a_.q);
    const int tokens = kApart / a_.group_heads, heads = kApart % a_.group_heads;  // so far apart
    const int last = next_.row_begin + next_.rows - 1;
    const int64_t last_at = head_at(a_, last, next_.head, D, a_.ld_q);
    group_.each([&](int t) {
      int packed = next_.row_begin + first_ + t / kAcross;
      int token = packed / a_.group_heads, head = packed % a_.group_heads;
      unrolled<kPieces>([&](int i) {
        const int64_t at =
            token * a_.ld_q + static_cast<int64_t>(next_.head * a_.group_heads + head) * D;
        queries_[t].x[i] = load16(q + (packed > last ? last_at : at) + t % kAcross * 8);
        packed += kApart;
        token += tokens;
        head += heads;
        if (head >= a_.group_heads) {
          head -= a_.group_heads;
          ++token;
        }
      });
    });
  }
  PREFIX_BODY void store_queries() {
    group_.sync();  // those of the item before are not read any more
    group_.each([&](int t) {
      const int row = t / kAcross, column = t % kAcross;
      const int at = Shared::queries(group_.index()) + column / 8 * kHopperRows * 128 + row * 128 +
                     ((column % 8) ^ (row & 7)) * 16;
      unrolled<kPieces>([&](int i) { group_.set(t, at + i * kApart * 128, queries_[t].x[i]); });
    });
    group_.fence_async();
    group_.sync();
  }

  PREFIX_BODY void start() {
    group_.each_warp([&](Warp& warp) {
      warp.each([&](int lane) {
        Output& o = output_.of(warp)[lane];
        unrolled<D / 2>([&](int i) { o.x[i] = 0; });
        Sums& s = sums_.of(warp)[lane];
        unrolled<2>([&](int j) {
          s.m[j] = minus_infinity();
          s.l[j] = 0;
          const int row = row_of(warp, lane, j);
          s.position[j] =
              row < item_.rows ? a_.positions[(item_.row_begin + row) / a_.group_heads] : -1;
        });
      });
    });
  }

  // S = Q K^T of a stage: [64 rows][128 keys].
  PREFIX_BODY void multiply_keys(int stage) {
    const int queries = Shared::queries(0) / 16 + group_.index() * (Shared::kQueries / 16);
    const int keys = Shared::keys(0) / 16 + stage * (Shared::kTile / 16);
    unrolled<D / 16>([&](int k) {
      const int column = k % 4 * 32;  // bytes inside the strip
      group_.multiply_shared(
          scores_, matrix(queries + (k / 4 * kHopperRows * 128 + column) / 16, 16, 1024),
          matrix(keys + (k / 4 * Shared::kKeyStrip + column) / 16, 16, 1024), k > 0);
    });
  }

  // O += P V of a stage.
  PREFIX_BODY void multiply_values(int stage) {
    const int values = Shared::values(0) / 16 + stage * (Shared::kTile / 16);
    unrolled<kSteps>([&](int k) {
      group_.multiply_weights(output_, weights_, k,
                              matrix(values + (k / 2 * Shared::kBlock + k % 2 * 16 * 128) / 16,
                                     Shared::kPageStrip, 1024));
    });
  }

  // S -> 2^(S - m) in place, moves m and l.
  PREFIX_BODY void softmax(int tile, int masked) {
    if ((masked >> group_.index() & 1) != 0) mask(tile);
    group_.each_warp([&](Warp& warp) {
      Local<float> top[2];
      Local<Sums>& sums = sums_.of(warp);
      warp.each([&](int lane) {
        const Scores& s = scores_.of(warp)[lane];
        unrolled<2>([&](int j) {
          float highest[4];  // several, so that none waits for the one before
          unrolled<4>([&](int i) { highest[i] = minus_infinity(); });
          unrolled<kTiles>([&](int c) {
            unrolled<2>([&](int i) {
              float& h = highest[c % 2 * 2 + i];
              h = larger(s.x[4 * c + 2 * j + i], h);
            });
          });
          top[j][lane] = larger(larger(highest[0], highest[1]), larger(highest[2], highest[3]));
        });
      });
      warp.quad_max(top[0]);
      warp.quad_max(top[1]);
      warp.each([&](int lane) {
        Scores& s = scores_.of(warp)[lane];
        Sums& sum = sums[lane];
        unrolled<2>([&](int j) {
          const float m = larger(top[j][lane] * a_.scale_log2, sum.m[j]);
          const float shift = m == minus_infinity() ? 0.0f : m;
          sum.keep[j] = exp2_of(sum.m[j] - shift);
          sum.m[j] = m;
          float l[2] = {0, 0};
          unrolled<kTiles>([&](int c) {
            unrolled<2>([&](int i) {
              float& x = s.x[4 * c + 2 * j + i];
              x = exp2_of(x * a_.scale_log2 - shift);
              l[i] += x;
            });
          });
          sum.l[j] = sum.l[j] * sum.keep[j] + (l[0] + l[1]);
        });
      });
    });
  }

  PREFIX_BODY void mask(int tile) {
    WidePage header[Shared::kPages];
    unrolled<Shared::kPages>(
        [&](int i) { header[i] = group_.template read<WidePage>(Shared::header(tile) + i * 16); });
    group_.each_warp([&](Warp& warp) {
      warp.each([&](int lane) {
        Scores& s = scores_.of(warp)[lane];
        unrolled<2>([&](int j) {
          const int row = row_of(warp, lane, j);
          const int position = sums_.of(warp)[lane].position[j];
          unrolled<Shared::kPages>([&](int page) {
            const WidePage& h = header[page];
            // Keys of the page that the row sees; this lane has keys 2 (lane % 4) and the next of
            // each eight.
            const int seen = row >= h.low && row < h.high ? position - h.block * 32 : -1;
            unrolled<4>([&](int c) {
              unrolled<2>([&](int i) {
                if (8 * c + 2 * (lane % 4) + i > seen)
                  s.x[4 * (4 * page + c) + 2 * j + i] = minus_infinity();
              });
            });
          });
        });
      });
    });
  }

  PREFIX_BODY void scale() {
    group_.each_warp([&](Warp& warp) {
      Local<int> moved;  // no maximum, as a rule: then every factor is 1
      warp.each([&](int lane) {
        const Sums& sum = sums_.of(warp)[lane];
        moved[lane] = sum.keep[0] != 1 || sum.keep[1] != 1 ? 1 : 0;
      });
      if (!warp.any(moved)) return;
      warp.each([&](int lane) {
        Output& o = output_.of(warp)[lane];
        const Sums& sum = sums_.of(warp)[lane];
        unrolled<kColumns>(
            [&](int c) { unrolled<4>([&](int i) { o.x[4 * c + i] *= sum.keep[i / 2]; }); });
      });
    });
  }

  PREFIX_BODY void pack() {
    group_.each_warp([&](Warp& warp) {
      warp.each([&](int lane) {
        const Scores& s = scores_.of(warp)[lane];
        Weights& p = weights_.of(warp)[lane];
        unrolled<kSteps>([&](int k) {
          unrolled<4>(
              [&](int r) { p.x[k].x[r] = pack_bf16(s.x[8 * k + 2 * r], s.x[8 * k + 2 * r + 1]); });
        });
      });
    });
    group_.settle(weights_);  // not while the turn is ours
  }

  PREFIX_BODY void write() {
    group_.each_warp([&](Warp& warp) {
      unrolled<2>([&](int j) {
        Local<float> l;
        warp.each([&](int lane) { l[lane] = sums_.of(warp)[lane].l[j]; });
        warp.quad_sum(l);
        if (item_.partial >= 0) {
          write_state(warp, l, j);
        } else {
          write_result(warp, l, j);
        }
      });
    });
  }
  PREFIX_BODY void write_state(Warp& warp, const Local<float>& l, int j) {
    warp.each([&](int lane) {
      const int row = row_of(warp, lane, j);
      if (row >= item_.rows) return;
      const Output& o = output_.of(warp)[lane];
      const int64_t state =
          static_cast<int64_t>(item_.partial + row) * a_.pages.kv_heads + item_.head;
      if (lane % 4 == 0) {
        a_.partial_ml[2 * state] = sums_.of(warp)[lane].m[j];
        a_.partial_ml[2 * state + 1] = l[lane];
      }
      float* const to = a_.partial_o + state * D + 2 * (lane % 4);
      unrolled<kColumns>([&](int c) {
        store_whole(to + 8 * c, Floats2{{o.x[4 * c + 2 * j], o.x[4 * c + 2 * j + 1]}});
      });
    });
  }
  // Two lanes exchange columns of every other tile, so that four of them write 32 bytes of a row:
  //
  //   lane       0       1       2       3
  //   tile c     0 1     2 3     4 5     6 7     ->  lane 0: 0 1 2 3   lane 2: 4 5 6 7
  //   tile c+1   0 1     2 3     4 5     6 7     ->  lane 1: 0 1 2 3   lane 3: 4 5 6 7
  PREFIX_BODY void write_result(Warp& warp, const Local<float>& l, int j) {
    struct Pairs {
      uint32_t x[kColumns / 2];
    };
    Local<Pairs> kept, given;
    warp.each([&](int lane) {
      const Output& o = output_.of(warp)[lane];
      const float inverse = l[lane] == 0 ? 0.0f : 1.0f / l[lane];
      PREFIX_UNROLL
      for (int c = 0; c < kColumns; c += 2) {
        const auto pair = [&](int tile) {
          return pack_bf16(o.x[4 * tile + 2 * j] * inverse, o.x[4 * tile + 2 * j + 1] * inverse);
        };
        const uint32_t first = pair(c), second = pair(c + 1);
        kept[lane].x[c / 2] = lane % 2 == 0 ? first : second;
        given[lane].x[c / 2] = lane % 2 == 0 ? second : first;
      }
    });
    warp.exchange(given, 1);
    warp.each([&](int lane) {
      const int row = row_of(warp, lane, j);
      if (row >= item_.rows) return;
      uint16_t* const to = static_cast<uint16_t*>(a_.out) +
                           head_at(a_, item_.row_begin + row, item_.head, D, a_.ld_out) +
                           lane % 2 * 8 + lane % 4 / 2 * 4;
      PREFIX_UNROLL
      for (int c = 0; c < kColumns; c += 2) {
        const uint32_t own = kept[lane].x[c / 2], other = given[lane].x[c / 2];
        store_whole(to + 8 * c, lane % 2 == 0 ? Bits64{{own, other}} : Bits64{{other, own}});
      }
    });
  }

  Group& group_;
  const AttentionKernelArgs& a_;
  WideItems items_;
  HeadItem item_, next_;  // copies: what lies in memory is loaded again behind every wait
  const int first_;       // row of the item
  PerThread<Scores> scores_;
  PerThread<Output> output_;
  PerThread<Weights> weights_;
  PerThread<Sums> sums_;
  PerThread<Pieces> queries_;  // of the next item, until they are stored
};

template <int D, class Block>
PREFIX_BODY void attention_hopper(Block& block, const AttentionKernelArgs& a) {
  for (int stage = 0; stage < kHopperStages; ++stage) {
    block.begin_barrier(key_full(stage), 1);
    block.begin_barrier(key_empty(stage), 4 * kHopperGroups);
    block.begin_barrier(value_full(stage), 1);
    block.begin_barrier(value_empty(stage), 4 * kHopperGroups);
  }
  const int x = block.x();
  block.start(
      [&a, x](auto& producer) {
        using Producer = std::remove_reference_t<decltype(producer)>;
        WideItems items(a, x);
        HeadItem item, next;
        bool more = items.take(next);
        for (int tile = 0; more;) {
          item = next;
          more = items.take(next);  // on its way meanwhile
          if (item.rows > 0) tile = HopperProducer<D, Producer>(producer, a, item).run(tile);
        }
      },
      [&a, x](auto& group) {
        HopperConsumer<D, std::remove_reference_t<decltype(group)>>(group, a, x).run();
      });
}

}  // namespace prefix::ops::gpu
