#include "ops/gpu/dense_segments.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace prefix::ops::gpu {
namespace {

// Rows side by side in a tile that see the same runs. Their pages from position 0 on are the spine.
struct Section {
  int32_t row_begin, row_end;
  int32_t run_begin, run_end;  // in Finder::runs_, by position
  int32_t spine;               // pages
  int32_t whole;               // pages that every row sees wholly, with a key left behind them
  int32_t like_next = 0;       // pages that the next section's spine begins with, too
  bool chain;                  // positions follow one another, and the spine has them all
  bool goes_on = false;        // the next section is a chain that continues this one
};

class Finder {
 public:
  Finder(const AttentionPlan& plan, std::span<const int32_t> positions, const DenseLimits& limits,
         const std::function<bool(const DenseSegment&)>& accepts,
         std::vector<DenseSegment>& segments, std::vector<int32_t>& pages)
      : plan_(plan),
        positions_(positions),
        limits_(limits),
        accepts_(accepts),
        out_(segments),
        pages_(pages) {}

  void run() {
    for (const AttentionTile& tile : plan_.tiles) add_sections(tile);
    for (size_t i = 0; i + 1 < sections_.size(); ++i) {
      Section& s = sections_[i];
      const Section& next = sections_[i + 1];
      s.like_next = common_pages(s, next);
      const int32_t last = position(s.row_end - 1);
      s.goes_on = s.chain && next.chain && position(next.row_begin) == last + 1 &&
                  s.like_next > last / kPageTokens;
    }
    find(0, sections_.size());
    std::sort(out_.begin(), out_.end(), [](const DenseSegment& a, const DenseSegment& b) {
      return a.row_begin < b.row_begin;
    });
  }

 private:
  struct Candidate {
    int64_t work = 0;            // pairs of a row and a key
    size_t first = 0, last = 0;  // sections
    DenseSegment segment{};
  };

  int32_t position(int32_t row) const { return positions_[static_cast<size_t>(row)]; }
  const AttentionRun& run_of(int32_t i) const {
    return plan_.runs[static_cast<size_t>(runs_[static_cast<size_t>(i)])];
  }

  void add_sections(const AttentionTile& tile) {
    edges_.assign({tile.row_begin, tile.row_end});
    for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
      edges_.push_back(plan_.runs[static_cast<size_t>(i)].row_begin);
      edges_.push_back(plan_.runs[static_cast<size_t>(i)].row_end);
    }
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    for (size_t e = 0; e + 1 < edges_.size(); ++e) add_section(tile, edges_[e], edges_[e + 1]);
  }

  void add_section(const AttentionTile& tile, int32_t row_begin, int32_t row_end) {
    Section s{};
    s.row_begin = row_begin;
    s.row_end = row_end;
    s.run_begin = static_cast<int32_t>(runs_.size());
    for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
      const AttentionRun& run = plan_.runs[static_cast<size_t>(i)];
      if (run.row_begin > row_begin || run.row_end < row_end || run.block_begin != s.spine)
        continue;
      runs_.push_back(i);
      s.spine += run.blocks;
    }
    s.run_end = static_cast<int32_t>(runs_.size());
    s.chain = true;
    int32_t lowest = position(row_begin);
    for (int32_t row = row_begin + 1; row < row_end; ++row) {
      lowest = std::min(lowest, position(row));
      s.chain = s.chain && position(row) == position(row - 1) + 1;
    }
    s.chain = s.chain && s.spine > position(row_end - 1) / kPageTokens;
    s.whole = std::min(s.spine, lowest / kPageTokens);
    sections_.push_back(s);
  }

  int32_t common_pages(const Section& a, const Section& b) const {
    const int32_t most = std::min(a.spine, b.spine);
    int32_t i = a.run_begin, j = b.run_begin;
    for (int32_t block = 0; block < most;) {
      const AttentionRun& left = run_of(i);
      const AttentionRun& right = run_of(j);
      const int32_t end =
          std::min({most, left.block_begin + left.blocks, right.block_begin + right.blocks});
      if (&left != &right) {
        const int32_t* const x = page(left, block);
        const int32_t* const y = page(right, block);
        const auto same = static_cast<int32_t>(std::mismatch(x, x + (end - block), y).first - x);
        if (same < end - block) return block + same;
      }
      block = end;
      if (block == left.block_begin + left.blocks) ++i;
      if (block == right.block_begin + right.blocks) ++j;
    }
    return most;
  }

  const int32_t* page(const AttentionRun& run, int32_t block) const {
    return &plan_.pages[static_cast<size_t>(run.page_begin + block - run.block_begin)];
  }

  // The best segment of sections [first, last) that is accepted, then those left and right of it.
  void find(size_t first, size_t last) {
    Candidate all[] = {best_causal(first, last, true), best_causal(first, last, false),
                       best_shared(first, last)};
    std::stable_sort(std::begin(all), std::end(all),
                     [](const Candidate& a, const Candidate& b) { return a.work > b.work; });
    const Candidate* best = &all[0];
    if (best->work == 0) return;
    while (best != std::end(all) && best->work > 0 && !accepts_(best->segment)) ++best;
    if (best == std::end(all) || best->work == 0) {
      best = &all[0];  // nothing does it
    } else {
      DenseSegment s = best->segment;
      s.page_begin = static_cast<int32_t>(pages_.size());
      add_pages(sections_[best->last], s.block_begin, s.block_begin + s.blocks);
      out_.push_back(s);
    }
    find(first, best->first);
    find(best->last + 1, last);
  }

  void add_pages(const Section& section, int32_t from, int32_t to) {
    for (int32_t i = section.run_begin; i < section.run_end; ++i) {
      const AttentionRun& run = run_of(i);
      const int32_t begin = std::max(from, run.block_begin);
      const int32_t end = std::min(to, run.block_begin + run.blocks);
      if (begin < end)
        pages_.insert(pages_.end(), page(run, begin), page(run, begin) + end - begin);
    }
  }

  // `earlier`: with keys before the rows' own.
  Candidate best_causal(size_t first, size_t last, bool earlier) const {
    Candidate best;
    for (size_t i = first, next = first; i < last; i = next) {
      next = i + 1;
      if (!sections_[i].chain) continue;
      while (next < last && sections_[next - 1].goes_on) ++next;
      const int32_t begin = sections_[i].row_begin;
      const int32_t skip = (kPageTokens - position(begin) % kPageTokens) % kPageTokens;
      const int32_t own = position(begin) + skip;  // position of the first key of its own
      const int32_t rows = dense_length(
          std::min(sections_[next - 1].row_end - begin - skip, limits_.most_keys), limits_.step);
      const int32_t before =
          earlier ? dense_length(std::min(own, limits_.most_keys - rows), limits_.step) : 0;
      const int64_t work = int64_t{rows} * rows / 2 + int64_t{rows} * before;
      const bool enough = rows >= limits_.causal_rows ||
                          (rows >= limits_.shared_rows && before >= limits_.shared_keys);
      if (!enough || work <= best.work) continue;
      best = {work,
              i,
              next - 1,
              {true, begin + skip, rows, (own - before) / kPageTokens,
               (before + rows) / kPageTokens, 0}};
    }
    return best;
  }

  // The largest rectangle below a skyline: the rows of sections are as wide as they are many and
  // as high as pages are seen wholly; between two sections stands what they have in common.
  Candidate best_shared(size_t first, size_t last) const {
    Candidate best;
    struct Step {
      size_t section;  // the first one that is at least so high
      int32_t height;
    };
    std::vector<Step> stack;
    const auto close = [&](int32_t height, size_t end, size_t& from) {
      while (!stack.empty() && stack.back().height >= height) {
        from = stack.back().section;
        consider(from, end, stack.back().height, best);
        stack.pop_back();
      }
    };
    for (size_t i = first; i < last; ++i) {
      const Section& s = sections_[i];
      size_t from = i;
      close(s.whole, i, from);
      stack.push_back({from, s.whole});
      const int32_t bridge = i + 1 < last ? s.like_next : 0;
      if (bridge < stack.back().height) {
        size_t low = i;
        close(bridge, i + 1, low);
        stack.push_back({low, bridge});
      }
    }
    size_t unused = 0;
    close(0, last, unused);
    return best;
  }

  // Sections [first, end), `height` pages.
  void consider(size_t first, size_t end, int32_t height, Candidate& best) const {
    if (first >= end) return;
    const int32_t begin = sections_[first].row_begin;
    const int32_t rows = dense_length(sections_[end - 1].row_end - begin, limits_.step);
    const int32_t keys =
        dense_length(std::min(height * kPageTokens, limits_.most_keys), limits_.step);
    const int64_t work = int64_t{rows} * keys;
    if (rows < limits_.shared_rows || keys < limits_.shared_keys || work <= best.work) return;
    best = {work, first, end - 1, {false, begin, rows, 0, keys / kPageTokens, 0}};
  }

  const AttentionPlan& plan_;
  std::span<const int32_t> positions_;
  const DenseLimits& limits_;
  const std::function<bool(const DenseSegment&)>& accepts_;
  std::vector<DenseSegment>& out_;
  std::vector<int32_t>& pages_;
  std::vector<int32_t> edges_, runs_;
  std::vector<Section> sections_;
};

}  // namespace

int32_t dense_length(int32_t length, int32_t step) {
  if (length < step) return 0;
  const auto top = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(length)));
  const int32_t unit = std::max(top / 8 / step * step, step);
  return length / unit * unit;
}

void find_dense(const AttentionPlan& plan, std::span<const int32_t> positions,
                const DenseLimits& limits, const std::function<bool(const DenseSegment&)>& accepts,
                std::vector<DenseSegment>& segments, std::vector<int32_t>& pages) {
  segments.clear();
  pages.clear();
  if (static_cast<int32_t>(positions.size()) < std::min(limits.shared_rows, limits.causal_rows))
    return;
  Finder(plan, positions, limits, accepts, segments, pages).run();
}

}  // namespace prefix::ops::gpu
