// Segment attention on tensor cores (mma.m16n8k16, bf16, sums in f32): one block does one item of
// the plan (src/ops/gpu/attention_schedule.h) for one kv head.
//
//   shared memory   [ queries: 16 W rows x D ][ ring of pages: K 32 x D, V 32 x D ] ...
//                   a page lies there as it does in the pool (Pages in ops/gpu/launch.h)
//
// What a warp does with a page: body/attention_warp.h. A row takes its pages in ascending
// positions, one softmax step each: what it sums does not depend on how the tree is cut into runs.
#pragma once

#include "body/attention_warp.h"

namespace prefix::ops::gpu {

template <int D, int W>
struct AttentionShared {
  static constexpr int kSlots = attention_slots(D);
  static constexpr int kSlotBytes = attention_slot_bytes(D);
  static constexpr int kRing = attention_query_bytes(D, W);  // offset
  static constexpr int kPieces = D / 8;                      // 16-byte pieces of a row
  // Pages that are worked on at once by a narrow item, one per warp: half of the ring, while the
  // other half lands.
  static constexpr int kNarrow = W < kSlots / 2 ? W : kSlots / 2;
  static_assert(kNarrow >= 1 && kSlots % kNarrow == 0);
  // Narrow items are merged over warps in the ring.
  static constexpr int kMergeRow = WarpSoftmaxState<D>::kRow;
  static constexpr int kMergeBytes = WarpSoftmaxState<D>::kBytes;
  static_assert(kNarrow * kMergeBytes <= kSlots * kSlotBytes);

  // Of the queries: strips of 64 columns, as in a page.
  static constexpr int kQueryStrip = 16 * W * 128;
};

template <int D, int W, class Block>
class Attention {
  using Shared = AttentionShared<D, W>;
  using Warp = typename Block::Warp;
  template <class T>
  using Local = typename Warp::template Local<T>;
  template <class T>
  using PerThread = typename Block::template PerThread<T>;

  static constexpr int kThreads = 32 * W;
  using Rows = WarpRows<D, Warp>;
  using Sums = typename Rows::Sums;
  static constexpr int kSteps = D / 16;   // of Q K^T
  static constexpr int kColumns = D / 8;  // 8-column tiles of O
  static constexpr bool kHoldQueries = Rows::kHoldQueries;
  static constexpr int kOwn = D / 32;              // columns of a lane when items are merged
  static constexpr int kBatch = D <= 128 ? 8 : 4;  // items in flight then

  struct Queries {
    FragmentA q[kHoldQueries ? kSteps : 1];
  };
  // The next page to load or to work on. A copy of the run saves loads in front of every page.
  struct Cursor {
    int at_run;  // run_end_: no more pages
    int page;    // inside the run
    KvRun run;
  };

 public:
  PREFIX_BODY Attention(Block& block, const AttentionKernelArgs& a)
      : block_(block),
        a_(a),
        // Items of later rows have longer walks: they start first, and short ones fill the end.
        item_(a.items[a.item_count - 1 - block.x()]),
        run_end_(item_.run_end),
        row_begin_(item_.row_begin),
        rows_(item_.rows),
        head_(block.y()),
        sums_(block),
        ranges_(block),
        queries_(block) {}

  PREFIX_BODY void run() {
    if (a_.wide_done && !item_.narrow) {  // body/attention_hopper.h did the rest
      if (item_.group >= 0) merge_group();
      return;
    }
    load_queries();
    clear_padding();
    block_.sync();
    block_.each_warp([&](Warp& warp) { begin(warp); });
    if (item_.narrow) {
      walk<Shared::kNarrow, false>();
      write_narrow();
    } else {
      walk<1, true>();
      block_.each_warp([&](Warp& warp) { write_wide(warp); });
    }
    if (item_.group >= 0) merge_group();
  }

 private:
  PREFIX_BODY int64_t head_at(int row, int64_t ld) const {  // row: inside the item
    return gpu::head_at(a_, row_begin_ + row, head_, a_.pages.head_dim, ld);
  }

  // Rows and columns that do not exist are zero.
  PREFIX_BODY void load_queries() {
    const int d = a_.pages.head_dim;
    const bool whole = d % 8 == 0;  // 16-byte loads are aligned
    const auto* const q = static_cast<const uint16_t*>(a_.q);
    block_.each([&](int t) {
      for (int i = t; i < 16 * W * Shared::kPieces; i += kThreads) {
        const int row = i / Shared::kPieces;
        const int piece = i % Shared::kPieces;
        Bits128 v{{0, 0, 0, 0}};
        if (row < rows_ && piece * 8 < d) {
          const uint16_t* const from = q + head_at(row, a_.ld_q) + piece * 8;
          if (whole) {
            v = load16(from);
          } else {
            unrolled<8>([&](int j) {
              const uint32_t x = piece * 8 + j < d ? from[j] : 0;
              v.x[j / 2] |= x << (j % 2 * 16);
            });
          }
        }
        block_.template set<Bits128>(t, strip_at<Shared::kQueryStrip>(row, piece), v);
      }
    });
  }

  // Columns of the ring that no page has: copies never touch them.
  PREFIX_BODY void clear_padding() {
    const int pieces = a_.pages.d_padded / 8;
    if (pieces == Shared::kPieces) return;
    block_.each([&](int t) {
      for (int i = t; i < Shared::kSlots * 64 * Shared::kPieces; i += kThreads)
        if (piece_at(i) >= pieces)
          block_.template set<Bits128>(t, Shared::kRing + 16 * i, Bits128{{0, 0, 0, 0}});
    });
  }

  PREFIX_BODY void begin(Warp& warp) {
    const int first = item_.narrow ? 0 : 16 * warp.index();
    if constexpr (kHoldQueries) {
      unrolled<kSteps>([&](int k) {
        Local<FragmentA> q;
        load_query(warp, first, k, q);
        warp.each([&](int lane) { queries_.of(warp)[lane].q[k] = q[lane]; });
      });
    }
    const auto range = Rows::begin(warp, sums_.of(warp), first, [&](int row) {
      return row < rows_ ? a_.positions[(row_begin_ + row) / a_.group_heads] : -1;
    });
    warp.each([&](int lane) { ranges_.of(warp)[lane] = range; });
  }

  PREFIX_BODY void load_query(Warp& warp, int first, int step, Local<FragmentA>& q) {
    Local<int> at;
    warp.each([&](int lane) {
      at[lane] = strip_at<Shared::kQueryStrip>(first + lane % 16, step, lane / 16);
    });
    warp.template load_matrices<false>(at, q);
  }

  // --- pages -----------------------------------------------------------------------------------

  PREFIX_BODY Cursor first_page() const { return {item_.run_begin, 0, a_.runs[item_.run_begin]}; }
  PREFIX_BODY void advance(Cursor& c) const {
    if (++c.page < c.run.blocks) return;
    c.page = 0;
    if (++c.at_run < run_end_) c.run = a_.runs[c.at_run];
  }

  // The numbers of the next R pages to load are known a round ahead: nothing but a barrier stands
  // before their copies. -1: there are no more.
  template <int R>
  struct Numbers {
    int page[R];
  };
  template <int R>
  PREFIX_BODY void look_up(Cursor& cursor, Numbers<R>& next) const {
    unrolled<R>([&](int r) {
      next.page[r] = -1;
      if (cursor.at_run >= run_end_) return;
      next.page[r] = a_.pages_list[cursor.run.page_begin + cursor.page];
      advance(cursor);
    });
  }

  // Which piece of its row lies at 16 * i of the ring.
  static PREFIX_BODY int piece_at(int i) { return i / 256 % (D / 64) * 8 + (i % 8 ^ (i / 8 & 7)); }

  // Starts the copies of up to R pages into the ring, from slot `slot` on.
  template <int R>
  PREFIX_BODY void load_round(Cursor& cursor, Numbers<R>& next, int slot) {
    const int pieces = a_.pages.d_padded / 8;
    constexpr int kMax = 64 * Shared::kPieces / kThreads;  // copies of a thread
    PREFIX_UNROLL
    for (int r = 0; r < R; ++r) {
      const int page = next.page[r];
      if (page < 0) break;
      const unsigned char* const keys =
          a_.pages.layer + page * a_.pages.page_stride + head_ * 2 * a_.pages.block_bytes;
      const int base = Shared::kRing + (slot + r) * Shared::kSlotBytes;
      if (pieces == Shared::kPieces) {
        block_.each([&](int t) {
          PREFIX_UNROLL_BY(4)
          for (int i = t; i < kMax * kThreads; i += kThreads)
            block_.copy16(t, base + 16 * i, keys + 16 * i);
        });
      } else {
        block_.each([&](int t) {
          PREFIX_UNROLL_BY(1)
          for (int i = t; i < kMax * kThreads; i += kThreads) {
            const int piece = piece_at(i);
            if (piece >= pieces) continue;
            const unsigned char* const block =
                i < 32 * Shared::kPieces ? keys : keys + a_.pages.block_bytes;
            const int from = page_at(i / 8 % 32, 8 * piece, a_.pages.d_padded, Element::kBf16);
            block_.copy16(t, base + 16 * i, block + 2 * from);
          }
        });
      }
    }
    block_.commit();
    look_up<R>(cursor, next);
  }

  // Works through the item's pages, R at a time: warp r of R takes page r of a round; `together`:
  // all warps take every page.
  template <int R, bool together>
  PREFIX_BODY void walk() {
    constexpr int kRounds = Shared::kSlots / R;  // in the ring
    constexpr int kAhead = kRounds - 1;
    static_assert(kAhead > 0);
    Cursor load = first_page();
    Cursor now = load;
    Numbers<R> next;
    look_up<R>(load, next);
    unrolled<kAhead>([&](int i) { load_round<R>(load, next, i * R); });
    for (int round = 0; now.at_run < run_end_; ++round) {
      block_.template wait<kAhead - 1>();
      block_.sync();
      // The slots of the round before: every warp is done with them, or it would not be here.
      load_round<R>(load, next, (round + kAhead) % kRounds * R);
      for (int r = 0; r < R && now.at_run < run_end_; ++r) {
        const int block = now.run.block_begin + now.page;
        const int slot = Shared::kRing + (round % kRounds * R + r) * Shared::kSlotBytes;
        block_.each_warp([&](Warp& warp) {
          if (together || warp.index() == r)
            page(warp, together ? 16 * warp.index() : 0, now.run, block, slot);
        });
        advance(now);
      }
    }
    block_.template wait<0>();
  }

  // `first`: of the warp's rows.
  PREFIX_BODY void page(Warp& warp, int first, const KvRun& run, int block, int slot) {
    const WarpPage page{slot, block, run.row_begin - row_begin_, run.row_end - row_begin_};
    Rows::take(warp, sums_.of(warp), ranges_.of(warp)[0], first, rows_, page, a_.scale_log2,
               [&](int k, Local<FragmentA>& q) {
                 if constexpr (kHoldQueries) {
                   warp.each([&](int lane) { q[lane] = queries_.of(warp)[lane].q[k]; });
                 } else {
                   load_query(warp, first, k, q);
                 }
               });
  }

  // --- results ---------------------------------------------------------------------------------

  PREFIX_BODY int64_t state_at(int state_row) const {
    return static_cast<int64_t>(state_row) * a_.pages.kv_heads + head_;
  }

  // Columns `column`, which is even, and the next, as far as they exist.
  PREFIX_BODY void store_pair(uint16_t* out, int column, float first, float second) const {
    const int d = a_.pages.head_dim;
    if (column >= d) return;
    if (d % 2 == 0) {
      store_whole(out + column, pack_bf16(first, second));  // activations have even strides
      return;
    }
    out[column] = to_bf16(first);
    if (column + 1 < d) out[column + 1] = to_bf16(second);
  }

  PREFIX_BODY void write_wide(Warp& warp) {
    const int first = 16 * warp.index();
    Local<Sums>& sums = sums_.of(warp);
    Local<float> l[2];
    Rows::sum_weights(warp, sums, l);
    warp.each([&](int lane) {
      unrolled<2>([&](int j) {
        const int row = first + lane / 4 + 8 * j;
        if (row >= rows_) return;
        const float sum = l[j][lane];
        if (item_.partial >= 0) {
          const int64_t state = state_at(item_.partial + row);
          if (lane % 4 == 0)
            store_whole(a_.partial_ml + 2 * state, Floats2{{sums[lane].m[j], sum}});
          float* const o = a_.partial_o + state * a_.pages.d_padded;
          unrolled<kColumns>([&](int c) {
            const int column = 8 * c + 2 * (lane % 4);
            const float* const x = sums[lane].o[c].x + 2 * j;
            if (column < a_.pages.d_padded) store_whole(o + column, Floats2{{x[0], x[1]}});
          });
        } else {
          const float inverse = sum == 0 ? 0.0f : 1.0f / sum;
          uint16_t* const out = static_cast<uint16_t*>(a_.out) + head_at(row, a_.ld_out);
          unrolled<kColumns>([&](int c) {
            const float* const x = sums[lane].o[c].x + 2 * j;
            store_pair(out, 8 * c + 2 * (lane % 4), x[0] * inverse, x[1] * inverse);
          });
        }
      });
    });
  }

  // The warps of a narrow item have the same rows and different pages: their states are merged in
  // shared memory, in the order of the warps.
  PREFIX_BODY void write_narrow() {
    block_.sync();  // pages are not read any more
    block_.each_warp([&](Warp& warp) {
      if (warp.index() >= Shared::kNarrow) return;
      Rows::store(warp, sums_.of(warp), Shared::kRing + warp.index() * Shared::kMergeBytes);
    });
    block_.sync();
    block_.each([&](int t) {
      for (int i = t; i < rows_ * D / 2; i += kThreads) {
        const int row = i / (D / 2);
        const int column = i % (D / 2) * 2;
        if (column >= a_.pages.d_padded) continue;
        const auto part = [&](int warp, int word) {
          return block_.template get<Floats2>(
              t, Shared::kRing + warp * Shared::kMergeBytes + word * 4);
        };
        const int ml = WarpSoftmaxState<D>::kMaxima + 2 * row;
        float m = minus_infinity(), l = 0;
        Floats2 o{{0, 0}};
        for (int w = 0; w < Shared::kNarrow; ++w) m = larger(part(w, ml).x[0], m);
        const float shift = m == minus_infinity() ? 0.0f : m;
        for (int w = 0; w < Shared::kNarrow; ++w) {
          const float weight = exp2_of(part(w, ml).x[0] - shift);
          l += part(w, ml).x[1] * weight;
          const Floats2 x = part(w, row * Shared::kMergeRow + column);
          o.x[0] += x.x[0] * weight;
          o.x[1] += x.x[1] * weight;
        }
        if (item_.partial < 0) {
          const float inverse = l == 0 ? 0.0f : 1.0f / l;
          store_pair(static_cast<uint16_t*>(a_.out) + head_at(row, a_.ld_out), column,
                     o.x[0] * inverse, o.x[1] * inverse);
          continue;
        }
        const int64_t state = state_at(item_.partial + row);
        store_whole(a_.partial_o + state * a_.pages.d_padded + column, o);
        if (column == 0) store_whole(a_.partial_ml + 2 * state, Floats2{{m, l}});
      }
    });
  }

  // --- merging of items ------------------------------------------------------------------------

  // What a lane knows of its item's part in a row.
  struct Part {
    int state;  // row of states; -1: the item does not have the row
    float m, l;
  };

  // The block that comes last merges the states of all items of the group, in their order: a warp
  // per row, a lane per item for the weights, then a lane per kOwn columns.
  PREFIX_BODY void merge_group() {
    const ReductionGroup group = a_.groups[item_.group];
    int32_t* const counter = a_.arrived + item_.group * a_.pages.kv_heads + head_;
    if (!block_.arrives_last(counter, group.item_end - group.item_begin)) return;
    block_.each_warp([&](Warp& warp) {
      Local<Part> parts, next;
      load_parts(warp, group, group.item_begin, warp.index(), next);
      for (int row = warp.index(); row < group.rows; row += W) {
        warp.each([&](int lane) { parts[lane] = next[lane]; });
        // On their way while this row is merged.
        load_parts(warp, group, group.item_begin, row + W, next);
        merge_row(warp, group, row, parts);
      }
    });
  }

  // Parts of up to 32 items from `item` on.
  PREFIX_BODY void load_parts(Warp& warp, const ReductionGroup& group, int item, int row,
                              Local<Part>& parts) const {
    warp.each([&](int lane) {
      Part part{-1, minus_infinity(), 0};
      if (row < group.rows && item + lane < group.item_end)
        part.state = state_row(a_.items[item + lane], group.row_begin + row);
      if (part.state >= 0) {
        float ml[2];
        block_.load_fresh(a_.partial_ml + 2 * state_at(part.state), ml);
        part.m = ml[0];
        part.l = ml[1];
      }
      parts[lane] = part;
    });
  }

  // `parts`: of the first items; it is overwritten where there are more than 32.
  PREFIX_BODY void merge_row(Warp& warp, const ReductionGroup& group, int row, Local<Part>& parts) {
    Local<float> top, weight, weighted;
    Local<int> state;
    Local<float[kOwn]> o;
    warp.each([&](int lane) {
      top[lane] = parts[lane].m;
      unrolled<kOwn>([&](int c) { o[lane][c] = 0; });
    });
    const bool many = group.item_end - group.item_begin > 32;
    for (int item = group.item_begin + 32; item < group.item_end; item += 32) {
      load_parts(warp, group, item, row, parts);
      warp.each([&](int lane) { top[lane] = larger(parts[lane].m, top[lane]); });
    }
    const float m = warp.max(top);
    const float shift = m == minus_infinity() ? 0.0f : m;
    float l = 0;
    for (int item = group.item_begin; item < group.item_end; item += 32) {
      if (many) load_parts(warp, group, item, row, parts);
      warp.each([&](int lane) {
        state[lane] = parts[lane].state;
        weight[lane] = exp2_of(parts[lane].m - shift);
        weighted[lane] = parts[lane].l * weight[lane];
      });
      const int count = smaller(32, group.item_end - item);
      for (int from = 0; from < count; from += kBatch) {
        int states[kBatch];
        unrolled<kBatch>([&](int i) { states[i] = warp.broadcast(state, from + i); });
        Local<float[kBatch][kOwn]> x;  // all on their way before the first is needed
        warp.each([&](int lane) {
          if (lane * kOwn >= a_.pages.d_padded) return;
          unrolled<kBatch>([&](int i) {
            if (states[i] >= 0)
              block_.load_fresh(
                  a_.partial_o + state_at(states[i]) * a_.pages.d_padded + lane * kOwn, x[lane][i]);
          });
        });
        PREFIX_UNROLL
        for (int i = 0; i < kBatch; ++i) {
          if (states[i] < 0) continue;
          const float w = warp.broadcast(weight, from + i);
          l += warp.broadcast(weighted, from + i);
          warp.each([&](int lane) {
            if (lane * kOwn >= a_.pages.d_padded) return;
            unrolled<kOwn>([&](int c) { o[lane][c] += x[lane][i][c] * w; });
          });
        }
      }
    }
    const float inverse = l == 0 ? 0.0f : 1.0f / l;
    uint16_t* const out =
        static_cast<uint16_t*>(a_.out) + head_at(group.row_begin + row - row_begin_, a_.ld_out);
    warp.each([&](int lane) {
      PREFIX_UNROLL
      for (int c = 0; c < kOwn; c += 2)
        store_pair(out, lane * kOwn + c, o[lane][c] * inverse, o[lane][c + 1] * inverse);
    });
  }

  // The row of states of a packed row, -1 when the item does not have it.
  PREFIX_BODY int state_row(const WorkItem& item, int row) const {
    const int rows = item.rows, state = item.partial;  // loaded side by side
    const int inside = row - item.row_begin;
    return inside >= 0 && inside < rows ? state + inside : -1;
  }

  Block& block_;
  const AttentionKernelArgs& a_;
  const WorkItem& item_;  // what is rarely used stays where it is
  const int run_end_;
  const int row_begin_;
  const int rows_;
  const int head_;
  PerThread<Sums> sums_;
  PerThread<typename Rows::Range> ranges_;
  PerThread<Queries> queries_;
};

}  // namespace prefix::ops::gpu
