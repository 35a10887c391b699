#include "ops/gpu/attention_schedule.h"

#include <algorithm>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

constexpr int32_t kWarpRows = 16;

class Planner {
 public:
  Planner(const PackedPlan& step, const AttentionShape& shape, DevicePlan& out)
      : step_(step), shape_(shape), out_(out) {}

  void run() {
    out_.clear();
    split_ = shape_.invariant ? kInvariantPages : split_pages();
    each_wide([&](const AttentionTile& tile, int32_t begin, int32_t end) {
      add_block(tile, begin, end);
    });
    end_launch(out_.items.size());
  }

 private:
  // For blocks of as many packed rows as a wide item has.
  template <typename F>
  void each_wide(const F& f) const {
    step_.each_block(shape_.warps * kWarpRows, f);
  }

  // Pieces so long that there is about one item per processor, but never below kSplitPages: every
  // piece more is a partial state to merge for each of its rows.
  int32_t split_pages() const {
    int64_t pages = 0;
    each_wide([&](const AttentionTile& tile, int32_t begin, int32_t end) {
      for (int32_t i = tile.run_begin; i < tile.run_end; ++i)
        pages += step_.clip(i, begin, end).blocks;
    });
    const int64_t wanted = pages * shape_.kv_heads / shape_.processors + 1;
    const int64_t split = (wanted + kSplitPages - 1) / kSplitPages * kSplitPages;
    return static_cast<int32_t>(std::min<int64_t>(split, 1 << 20));
  }

  void add_block(const AttentionTile& tile, int32_t begin, int32_t end) {
    wide_.clear();
    narrow_.clear();
    for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
      const KvRun run = step_.clip(i, begin, end);
      if (run.blocks == 0) continue;
      const bool wide =
          shape_.invariant || (end - begin > kWarpRows && run.row_end - run.row_begin > kWarpRows);
      (wide ? wide_ : narrow_).push_back(run);
    }
    if (shape_.warpgroups && !wide_.empty()) fold_narrow();
    const size_t first = out_.items.size();
    add_wide(begin, end);
    if (!narrow_.empty()) {
      for (int32_t at = begin; at < end; at += kWarpRows)
        add_narrow(at, std::min(end, at + kWarpRows));
    }
    close_groups(first, begin, end);
  }

  void fold_narrow() {
    int32_t pages = 0;
    for (const KvRun& run : narrow_) pages += run.blocks;
    if (pages > std::min(kFoldedPages, split_)) return;
    wide_.insert(wide_.end(), narrow_.begin(), narrow_.end());
    narrow_.clear();
  }

  WorkItem start_item(bool narrow) const {
    WorkItem item{};
    item.row_begin = INT32_MAX;
    item.narrow = narrow ? 1 : 0;
    item.partial = item.group = -1;
    item.run_begin = static_cast<int32_t>(out_.runs.size());
    return item;
  }

  // Blocks [first, last) of a run.
  void add_run(WorkItem& item, const KvRun& run, int32_t first, int32_t last) {
    out_.runs.push_back({run.page_begin + first - run.block_begin, first, last - first,
                         run.row_begin, run.row_end});
    const int32_t end =
        item.rows > 0 ? std::max(item.row_begin + item.rows, run.row_end) : run.row_end;
    item.row_begin = std::min(item.row_begin, run.row_begin);
    item.rows = end - item.row_begin;
  }

  void end_item(WorkItem& item) {
    item.run_end = static_cast<int32_t>(out_.runs.size());
    if (item.run_begin < item.run_end) out_.items.push_back(item);
  }

  // Items of all packed rows [begin, end), cut at positions that are multiples of split_.
  void add_wide(int32_t begin, int32_t end) {
    if (wide_.empty()) return;
    int32_t from = INT32_MAX, to = 0;
    for (const KvRun& run : wide_) {
      from = std::min(from, run.block_begin);
      to = std::max(to, run.block_begin + run.blocks);
    }
    for (int32_t cut = from / split_ * split_; cut < to; cut += split_) {
      WorkItem item = start_item(false);
      for (const KvRun& run : wide_) {
        const int32_t first = std::max(run.block_begin, cut);
        const int32_t last = std::min(run.block_begin + run.blocks, cut + split_);
        if (first < last) add_run(item, run, first, last);
      }
      item.row_begin = begin;
      item.rows = end - begin;
      end_item(item);
    }
  }

  // Items of up to split_ pages, with the rows that their runs have. Row by row, each row upwards:
  // a leaf stays whole where it fits, and leaves side by side share an item.
  void add_narrow(int32_t begin, int32_t end) {
    window_.clear();
    for (KvRun run : narrow_) {
      run.row_begin = std::max(run.row_begin, begin);
      run.row_end = std::min(run.row_end, end);
      if (run.row_begin < run.row_end) window_.push_back(run);
    }
    std::sort(window_.begin(), window_.end(), [](const KvRun& a, const KvRun& b) {
      return std::pair(a.row_begin, a.block_begin) < std::pair(b.row_begin, b.block_begin);
    });
    WorkItem item = start_item(true);
    int32_t pages = 0;
    for (const KvRun& run : window_) {
      const int32_t pieces = (run.blocks + split_ - 1) / split_;
      for (int32_t i = 0; i < pieces; ++i) {
        const auto cut = [&](int64_t piece) {
          return run.block_begin + static_cast<int32_t>(run.blocks * piece / pieces);
        };
        const int32_t count = cut(i + 1) - cut(i);
        if (pages > 0 && (pieces > 1 || pages + count > split_)) {
          end_item(item);
          item = start_item(true);
          pages = 0;
        }
        add_run(item, run, cut(i), cut(i + 1));
        pages += count;
      }
    }
    end_item(item);
  }

  // The items from `first` on, in ascending order of their first row, are all that packed rows
  // [begin, end) have. Those with rows in common become a group; an item with rows of its own
  // writes the result itself.
  void close_groups(size_t first, int32_t begin, int32_t end) {
    int32_t done = begin;  // rows before have their items
    for (size_t last = first; first < out_.items.size(); first = last) {
      const int32_t row_begin = done;
      PREFIX_CHECK(out_.items[first].row_begin == row_begin);  // a row sees at least its own key
      for (last = first; last < out_.items.size(); ++last) {
        const WorkItem& item = out_.items[last];
        PREFIX_CHECK(item.row_begin >= row_begin);
        if (last > first && item.row_begin >= done) break;
        done = std::max(done, item.row_begin + item.rows);
      }
      if (last - first == 1) continue;
      int64_t states = partials_;
      for (size_t i = first; i < last; ++i) states += out_.items[i].rows;
      if (states > shape_.max_partials && partials_ > 0) end_launch(first);
      const auto group = static_cast<int32_t>(out_.groups.size()) - launched_.group_end;
      out_.groups.push_back({row_begin, done - row_begin,
                             static_cast<int32_t>(first) - launched_.item_end,
                             static_cast<int32_t>(last) - launched_.item_end});
      for (size_t i = first; i < last; ++i) {
        WorkItem& item = out_.items[i];
        item.group = group;
        item.partial = partials_;
        partials_ += item.rows;
      }
      out_.partials = std::max(out_.partials, partials_);
    }
    PREFIX_CHECK(done == end);
  }

  // What comes from item `end` on belongs to another launch.
  void end_launch(size_t end) {
    launched_ = {static_cast<int32_t>(end), static_cast<int32_t>(out_.groups.size())};
    out_.launches.push_back(launched_);
    partials_ = 0;
  }

  const PackedPlan step_;
  const AttentionShape& shape_;
  DevicePlan& out_;
  int32_t split_ = kSplitPages;
  LaunchRange launched_ = {0, 0};  // the end of the one before
  int32_t partials_ = 0;           // of this one
  std::vector<KvRun> wide_, narrow_, window_;
};

}  // namespace

KvRun PackedPlan::clip(int32_t number, int32_t begin, int32_t end) const {
  const AttentionRun& run = plan.runs[static_cast<size_t>(number)];
  const int32_t g = group_heads;
  KvRun r{run.page_begin, run.block_begin, 0, std::max(begin, run.row_begin * g),
          std::min(end, run.row_end * g)};
  if (r.row_begin >= r.row_end) return r;
  int32_t last = -1;
  for (int32_t row = r.row_begin / g; row <= (r.row_end - 1) / g; ++row)
    last = std::max(last, positions[static_cast<size_t>(row)]);
  r.blocks = std::clamp(last / kPageTokens + 1 - run.block_begin, 0, run.blocks);
  return r;
}

void plan_attention(const AttentionPlan& plan, std::span<const int32_t> positions,
                    const AttentionShape& shape, DevicePlan& out) {
  Planner({plan, positions, shape.group_heads}, shape, out).run();
}

}  // namespace prefix::ops::gpu
