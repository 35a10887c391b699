#include "ops/gpu/decode_schedule.h"

#include <algorithm>
#include <array>

#include "ops/gpu/attention_schedule.h"
#include "ops/gpu/step_graph.h"

namespace prefix::ops::gpu {
namespace {

constexpr int32_t kTileRows = 16;  // of a warp
constexpr int32_t kMaxTiles = kDecodeRows / kTileRows;
// What merging a row tile of a cluster costs, against bringing a page: estimated from the rates of
// shared memory of other blocks (8 KB) and of pages (16 KB), in half pages.
constexpr int64_t kFoldHalfPages = 3;

// How the rows are cut, and the splits of each block.
struct Cut {
  int32_t rows = 0, blocks = 0, cluster = 0;
  int64_t pages = 0, longest = 0;  // of all blocks, of a split
  int32_t tiles = 0;               // of the largest block

  // A page takes twice as long where both groups of warps take it.
  int64_t cost() const {
    const int64_t taken = tiles > decode_tiles(kDecodeGroupRows) ? 2 * longest : longest;
    return 2 * taken + (cluster > 1 ? kFoldHalfPages * tiles : 0);
  }
};

// The warps of a block that take its pages: those with the same rows in turn.
class Takers {
 public:
  explicit Takers(int32_t rows) : tiles_(decode_tiles(rows)), sharing_(kDecodeWarps / tiles_) {}

  // Of a page of rows [low, high).
  int32_t of(int32_t low, int32_t high) {
    int32_t warps = 0;
    for (int32_t group = 0; group * kDecodeGroupRows < high; ++group) {
      const int32_t first = std::max(low - group * kDecodeGroupRows, 0) / kTileRows;
      const int32_t last =
          (std::min(high - group * kDecodeGroupRows, kDecodeGroupRows) - 1) / kTileRows;
      if (first < last && tiles_ >= 4) {
        warps |= decode_group(group + group_turns_[static_cast<size_t>(group)]++ % sharing_);
        continue;
      }
      for (int32_t tile = 4 * group + first; tile <= 4 * group + last; ++tile)
        warps |= 1 << (tile + tile_turns_[static_cast<size_t>(tile)]++ % sharing_ * tiles_);
    }
    return warps;
  }

 private:
  int32_t tiles_, sharing_;
  std::array<int32_t, kDecodeRows / kDecodeGroupRows> group_turns_{};
  std::array<int32_t, kMaxTiles> tile_turns_{};
};

class DecodePlanner {
 public:
  DecodePlanner(const PackedPlan& step, const DecodeShape& shape, DecodePlan& out)
      : step_(step), plan_(step.plan), shape_(shape), out_(out) {}

  bool run() {
    if (plan_.tiles.empty() || step_.positions.size() > static_cast<size_t>(kMaxDecodeRows))
      return false;
    const Cut cut = choose();
    if (cut.cluster == 0 || is_long(cut)) return false;
    out_.cluster = cut.cluster;
    out_.cost = cut.cost();
    step_.each_block(cut.rows, [&](const AttentionTile& tile, int32_t begin, int32_t end) {
      add_block(tile, begin, end);
    });
    // Blocks without rows, which do nothing: the grid stays the same for many steps.
    const int64_t blocks = padded_items(cut.blocks);
    out_.splits.resize(static_cast<size_t>(blocks * cut.cluster), DecodeSplit{});
    return true;
  }

 private:
  // The cut whose longest split takes least. Of each size of cluster it has as many blocks as run
  // at once: with fewer of them each has more pages, and more have smaller clusters.
  Cut choose() {
    Cut best;
    int32_t before = 0;
    for (const int32_t at_once : shape_.clusters) {
      if (at_once < shape_.kv_heads) continue;
      const int32_t rows = rows_of_a_block(at_once / shape_.kv_heads);
      if (rows == before) continue;
      before = rows;
      const Cut cut = cut_into(rows);
      if (cut.cluster > 0 && (best.cluster == 0 || cut.cost() < best.cost())) best = cut;
    }
    return best;
  }

  // Of at most so many blocks of about the same size. Heads of a row stay together where they fit
  // into a row tile, since they read the same pages.
  int32_t rows_of_a_block(int32_t blocks) const {
    int32_t count = blocks;
    while (padded_items(count) > blocks) --count;
    const int32_t packed = plan_.tiles.back().row_end * shape_.group_heads;
    const int32_t unit = std::min(shape_.group_heads, kTileRows);
    const int32_t units = (packed + count * unit - 1) / (count * unit);
    return std::clamp(units, kTileRows / unit, kDecodeRows / unit) * unit;
  }

  Cut cut_into(int32_t rows) {
    Cut cut;
    cut.rows = rows;
    int64_t most = 0;  // of a block
    for (const AttentionTile& tile : plan_.tiles) {
      const int32_t first = tile.row_begin * shape_.group_heads;
      const int32_t end = tile.row_end * shape_.group_heads;
      in_block_.assign(static_cast<size_t>((end - first + rows - 1) / rows), 0);
      for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
        const AttentionRun& run = plan_.runs[static_cast<size_t>(i)];
        const int32_t from = (run.row_begin * shape_.group_heads - first) / rows;
        for (int32_t at = first + from * rows; at < run.row_end * shape_.group_heads; at += rows)
          in_block_[static_cast<size_t>((at - first) / rows)] +=
              step_.clip(i, at, std::min(end, at + rows)).blocks;
      }
      cut.blocks += static_cast<int32_t>(in_block_.size());
      for (const int64_t pages : in_block_) {
        cut.pages += pages;
        most = std::max(most, pages);
      }
      cut.tiles = std::max(cut.tiles, (std::min(rows, end - first) + kTileRows - 1) / kTileRows);
    }
    const int64_t clusters = padded_items(cut.blocks) * shape_.kv_heads;
    for (size_t i = 0; i < shape_.clusters.size(); ++i)
      if (clusters <= shape_.clusters[i]) cut.cluster = static_cast<int32_t>(i) + 1;
    if (cut.cluster > 0) cut.longest = (most + cut.cluster - 1) / cut.cluster;
    return cut;
  }

  // More pages than there is room for, or much longer than a plan that uses all processors.
  bool is_long(const Cut& cut) const {
    const bool idle = 2 * cut.blocks * cut.cluster * shape_.kv_heads < shape_.clusters[0];
    return cut.pages > kMaxDecodePages || (idle && cut.longest > kLongDecode);
  }

  // Pages that one row tile reads, and where a split goes on in them.
  struct Narrow {
    std::vector<DecodePage> pages;
    size_t at = 0;
  };

  void add_block(const AttentionTile& tile, int32_t begin, int32_t end) {
    wide_.clear();
    for (Narrow& n : narrow_) n.pages.clear();
    for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
      const KvRun run = step_.clip(i, begin, end);
      const int32_t low = run.row_begin - begin, high = run.row_end - begin;
      if (low >= high) continue;
      const int32_t first = low / kTileRows;
      const bool narrow = first == (high - 1) / kTileRows;
      std::vector<DecodePage>& to = narrow ? narrow_[static_cast<size_t>(first)].pages : wide_;
      for (int32_t p = 0; p < run.blocks; ++p)
        to.push_back({plan_.pages[static_cast<size_t>(run.page_begin + p)], run.block_begin + p,
                      static_cast<int16_t>(low), static_cast<int16_t>(high), 0});
    }
    const auto splits = static_cast<size_t>(out_.cluster);
    for (size_t split = 0; split < splits; ++split) {
      const auto page_begin = static_cast<int32_t>(out_.pages.size());
      for (size_t i = split; i < wide_.size(); i += splits) out_.pages.push_back(wide_[i]);
      add_narrow(split, splits);
      Takers takers(end - begin);
      for (auto i = static_cast<size_t>(page_begin); i < out_.pages.size(); ++i)
        out_.pages[i].warps = takers.of(out_.pages[i].low, out_.pages[i].high);
      out_.splits.push_back(
          {begin, end - begin, page_begin, static_cast<int32_t>(out_.pages.size())});
    }
  }

  // Dealing goes on from list to list.
  void add_narrow(size_t split, size_t splits) {
    size_t before = wide_.size();
    for (Narrow& n : narrow_) {
      n.at = (split + splits - before % splits) % splits;
      before += n.pages.size();
    }
    for (bool more = true; more;) {
      more = false;
      for (Narrow& n : narrow_) {
        if (n.at >= n.pages.size()) continue;
        out_.pages.push_back(n.pages[n.at]);
        n.at += splits;
        more = true;
      }
    }
  }

  const PackedPlan step_;
  const AttentionPlan& plan_;
  const DecodeShape& shape_;
  DecodePlan& out_;
  std::vector<int64_t> in_block_;  // pages
  std::vector<DecodePage> wide_;
  std::array<Narrow, kMaxTiles> narrow_;
};

}  // namespace

bool plan_decode(const AttentionPlan& plan, std::span<const int32_t> positions,
                 const DecodeShape& shape, DecodePlan& out) {
  out.clear();
  return DecodePlanner({plan, positions, shape.group_heads}, shape, out).run();
}

}  // namespace prefix::ops::gpu
