#include "ops/gpu/attention_plan.h"

#include <algorithm>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

constexpr int32_t kWarpRows = 16;

class Planner {
 public:
  Planner(const AttentionPlan& plan, std::span<const int32_t> positions,
          const AttentionShape& shape, DevicePlan& out)
      : plan_(plan), positions_(positions), shape_(shape), out_(out) {}

  void run() {
    out_.clear();
    split_ = shape_.invariant ? kInvariantPages : split_pages();
    for (const AttentionTile& tile : plan_.tiles)
      each_block(tile, [&](int32_t begin, int32_t end) { add_block(tile, begin, end); });
  }

 private:
  // Calls f(first, last) for pieces of the tile's packed rows that one wide block can hold.
  template <typename F>
  void each_block(const AttentionTile& tile, const F& f) const {
    const int32_t end = tile.row_end * shape_.group_heads;
    const int32_t step = shape_.warps * kWarpRows;
    for (int32_t at = tile.row_begin * shape_.group_heads; at < end; at += step)
      f(at, std::min(end, at + step));
  }

  // The part of a run that packed rows [begin, end) need; no blocks when it is none.
  Run clip(const AttentionRun& run, int32_t begin, int32_t end) const {
    const int32_t g = shape_.group_heads;
    Run r{run.page_begin, run.block_begin, 0, std::max(begin, run.row_begin * g),
          std::min(end, run.row_end * g)};
    if (r.row_begin >= r.row_end) return r;
    int32_t last = -1;
    for (int32_t row = r.row_begin / g; row <= (r.row_end - 1) / g; ++row)
      last = std::max(last, positions_[static_cast<size_t>(row)]);
    r.blocks = std::clamp(last / kPageTokens + 1 - run.block_begin, 0, run.blocks);
    return r;
  }

  // Pieces so long that there are about four items per processor, but never below kSplitPages.
  int32_t split_pages() const {
    int64_t pages = 0;
    for (const AttentionTile& tile : plan_.tiles)
      each_block(tile, [&](int32_t begin, int32_t end) {
        for (int32_t i = tile.run_begin; i < tile.run_end; ++i)
          pages += clip(plan_.runs[static_cast<size_t>(i)], begin, end).blocks;
      });
    const int64_t wanted = pages * shape_.kv_heads / (4 * int64_t{shape_.processors}) + 1;
    const int64_t split = (wanted + kSplitPages - 1) / kSplitPages * kSplitPages;
    return static_cast<int32_t>(std::min<int64_t>(split, 1 << 20));
  }

  void add_block(const AttentionTile& tile, int32_t begin, int32_t end) {
    wide_.clear();
    narrow_.clear();
    for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
      const Run run = clip(plan_.runs[static_cast<size_t>(i)], begin, end);
      if (run.blocks == 0) continue;
      const bool wide =
          shape_.invariant || (end - begin > kWarpRows && run.row_end - run.row_begin > kWarpRows);
      (wide ? wide_ : narrow_).push_back(run);
    }
    size_t first = out_.items.size();
    add_items(wide_, begin, end, false);
    if (narrow_.empty()) return close_group(first, begin, end);
    for (int32_t at = begin; at < end; at += kWarpRows) {
      const int32_t stop = std::min(end, at + kWarpRows);
      window_.clear();
      for (Run run : narrow_) {
        run.row_begin = std::max(run.row_begin, at);
        run.row_end = std::min(run.row_end, stop);
        if (run.row_begin < run.row_end) window_.push_back(run);
      }
      add_items(window_, at, stop, true);
      if (!wide_.empty()) continue;
      close_group(first, at, stop);  // nothing in common with the other windows
      first = out_.items.size();
    }
    if (!wide_.empty()) close_group(first, begin, end);
  }

  // The items from `first` on are all that packed rows [begin, end) have.
  void close_group(size_t first, int32_t begin, int32_t end) {
    const size_t count = out_.items.size() - first;
    PREFIX_CHECK(count > 0);  // a row sees at least its own key
    if (count == 1) return;   // it writes the result itself
    const auto group = static_cast<int32_t>(out_.groups.size());
    out_.groups.push_back(
        {begin, end - begin, static_cast<int32_t>(first), static_cast<int32_t>(out_.items.size())});
    for (size_t i = first; i < out_.items.size(); ++i) {
      Item& item = out_.items[i];
      item.group = group;
      item.state = out_.states;
      out_.states += item.rows;
    }
  }

  // Items over `runs`, cut into pieces of split_ pages.
  void add_items(const std::vector<Run>& runs, int32_t begin, int32_t end, bool narrow) {
    if (runs.empty()) return;
    int32_t from = INT32_MAX, to = 0;
    for (const Run& run : runs) {
      from = std::min(from, run.block_begin);
      to = std::max(to, run.block_begin + run.blocks);
    }
    for (int32_t cut = from / split_ * split_; cut < to; cut += split_) {
      Item item{};
      item.row_begin = begin;
      item.rows = end - begin;
      item.block_begin = std::max(cut, from);
      item.block_end = std::min(cut + split_, to);
      item.narrow = narrow ? 1 : 0;
      item.state = item.group = -1;
      item.run_begin = static_cast<int32_t>(out_.runs.size());
      for (const Run& run : runs) {
        const int32_t first = std::max(run.block_begin, item.block_begin);
        const int32_t last = std::min(run.block_begin + run.blocks, item.block_end);
        if (first >= last) continue;
        out_.runs.push_back({run.page_begin + first - run.block_begin, first, last - first,
                             run.row_begin, run.row_end});
      }
      item.run_end = static_cast<int32_t>(out_.runs.size());
      if (item.run_begin < item.run_end) out_.items.push_back(item);
    }
  }

  const AttentionPlan& plan_;
  std::span<const int32_t> positions_;
  const AttentionShape& shape_;
  DevicePlan& out_;
  int32_t split_ = kSplitPages;
  std::vector<Run> wide_, narrow_, window_;
};

}  // namespace

void plan_attention(const AttentionPlan& plan, std::span<const int32_t> positions,
                    const AttentionShape& shape, DevicePlan& out) {
  Planner(plan, positions, shape, out).run();
}

}  // namespace prefix::ops::gpu
