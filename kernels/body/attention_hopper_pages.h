// What brings the pages of wide items into shared memory (body/attention_hopper.h), and where they lie
// there: which items a block of threads has, and its producer.
//
//   the plan      item ─> pages of tile 0, of tile 1 ...   (WideItem, WidePage; the same for all heads)
//   producer      K 0, K 1, V 0, K 2, V 1 ...              two bulk copies of K a page, one of V, for 128 columns
#pragma once

#include "body/hopper.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// Offsets in shared memory; operands begin at multiples of 1 KB, as swizzling asks for.
template <int D>
struct HopperShared {
  static constexpr int kStages = kHopperStages;
  static constexpr int kPages = kHopperPages;
  static constexpr int kKeys = 32 * kPages;
  static constexpr int kBlock = 32 * D * 2;  // K or V of a page
  static constexpr int kTile = kPages * kBlock;
  static constexpr int kQueries = kHopperRows * D * 2;  // of a group
  static constexpr int kStrips = D / 64;

  // Queries of a group: strips of 64 columns, [64 rows][128 bytes]
  static constexpr int queries(int group) { return group * kQueries; }
  // K of a stage: strips [128 keys][128 bytes], so that one product takes all keys
  static constexpr int keys(int stage) { return kHopperGroups * kQueries + stage * kTile; }
  static constexpr int kKeyStrip = kKeys * 128;
  // V of a stage: page after page as in the pool, strips [32 keys][128 bytes]
  static constexpr int values(int stage) { return keys(kStages) + stage * kTile; }
  static constexpr int kPageStrip = 32 * 128;
  // What the pages of a tile are, of four tiles: that of j + 4 is written when S of j + 2 is there,
  // and then that of j + 1 has been read.
  static constexpr int kHeaders = keys(2 * kStages);
  static constexpr int header(int tile) { return kHeaders + tile % 4 * kPages * 16; }
  static constexpr int kBarriers = kHeaders + 4 * kPages * 16;
  static_assert(kBarriers + kHopperBarriers * 8 == hopper_shared_bytes(D));
  static_assert(kHopperStages <= 2);  // or more headers
};

// The barriers: full and empty, of K and of V, a stage each.
constexpr int key_full(int stage) { return stage; }
constexpr int key_empty(int stage) { return kHopperStages + stage; }
constexpr int value_full(int stage) { return 2 * kHopperStages + stage; }
constexpr int value_empty(int stage) { return 3 * kHopperStages + stage; }

struct HeadItem : WideItem {
  int head = 0;  // of keys
};

// The items of one block of threads, for each kv head: it takes each as many-th, there and back, so
// that none has the longest of every round.
class WideItems {
 public:
  PREFIX_BODY WideItems(const AttentionKernelArgs& a, int block) : a_(a), block_(block) {}

  // False, and an item without rows, behind the last one. Those that only fill the list up have none
  // either; they are handed out, since looking would wait for them.
  PREFIX_BODY bool take(HeadItem& out) {
    const int at =
        round_ * a_.wide_blocks + (round_ % 2 != 0 ? a_.wide_blocks - 1 - block_ : block_);
    ++round_;
    out.rows = 0;
    if (at >= a_.wide_count * a_.pages.kv_heads) return false;
    static_cast<WideItem&>(out) = a_.wide[at / a_.pages.kv_heads];
    out.head = at % a_.pages.kv_heads;
    return true;
  }

 private:
  const AttentionKernelArgs& a_;
  const int block_;
  int round_ = 0;
};

// Brings the pages of an item: K of a tile before V of the tile before it, in the order in which
// the groups let go of the stages.
template <int D, class Producer>
class HopperProducer {
  using Shared = HopperShared<D>;
  static constexpr int kPages = Shared::kPages;
  struct Tile {
    WidePage page[kPages];
  };
  struct Numbers {
    int page[kPages];
  };

 public:
  PREFIX_BODY HopperProducer(Producer& producer, const AttentionKernelArgs& a, const HeadItem& item)
      : p_(producer), a_(a), item_(item), head_offset_(item.head * 2 * a.pages.block_bytes) {}

  // Tiles are counted from one item to the next: `tile` is the first, the one behind the last is
  // returned.
  PREFIX_BODY int run(int tile) {
    Numbers now = load_keys(look_up(item_.page_begin), tile);
    Tile next = look_up(item_.page_begin + kPages);
    for (int at = item_.page_begin + kPages; at < item_.page_end; at += kPages, ++tile) {
      const Numbers then = load_keys(next, tile + 1);
      next = look_up(at + kPages);  // on its way meanwhile
      load_values(now, tile);
      now = then;
    }
    load_values(now, tile);
    return tile + 1;
  }

 private:
  // Behind the last tile, that one again.
  PREFIX_BODY Tile look_up(int at) const {
    Tile tile;
    unrolled<kPages>(
        [&](int i) { tile.page[i] = a_.wide_pages[smaller(at, item_.page_end - kPages) + i]; });
    return tile;
  }
  PREFIX_BODY const unsigned char* page_of(int page) const {
    return a_.pages.layer + page * a_.pages.page_stride + head_offset_;
  }

  PREFIX_BODY Numbers load_keys(const Tile& pages, int tile) {
    const int stage = tile % Shared::kStages;
    p_.wait(key_empty(stage), tile / Shared::kStages % 2 ^ 1);
    Numbers numbers;
    unrolled<kPages>([&](int i) {
      p_.set(Shared::header(tile) + i * 16, pages.page[i]);
      numbers.page[i] = pages.page[i].page;
    });
    p_.expect(key_full(stage), Shared::kTile);
    unrolled<kPages>([&](int i) {
      unrolled<Shared::kStrips>([&](int s) {
        p_.copy(Shared::keys(stage) + s * Shared::kKeyStrip + i * Shared::kPageStrip,
                page_of(numbers.page[i]) + s * Shared::kPageStrip, Shared::kPageStrip,
                key_full(stage));
      });
    });
    return numbers;
  }

  PREFIX_BODY void load_values(const Numbers& numbers, int tile) {
    const int stage = tile % Shared::kStages;
    p_.wait(value_empty(stage), tile / Shared::kStages % 2 ^ 1);
    p_.expect(value_full(stage), Shared::kTile);
    unrolled<kPages>([&](int i) {
      p_.copy(Shared::values(stage) + i * Shared::kBlock, page_of(numbers.page[i]) + Shared::kBlock,
              Shared::kBlock, value_full(stage));
    });
  }

  Producer& p_;
  const AttentionKernelArgs& a_;
  const HeadItem item_;
  const int64_t head_offset_;
};

}  // namespace prefix::ops::gpu
