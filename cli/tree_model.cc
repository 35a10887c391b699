#include "tree_model.h"

#include <algorithm>
#include <utility>

namespace prefix_cli {
namespace {

constexpr int32_t kMaxDepth = 256;  // bars beside each other: more are thinner than can be seen

// What lies below a bar, itself included.
struct Below {
  int64_t tokens = 0;
  int64_t saved = 0;
  int64_t requests = 0;
  int32_t leaves = 0;
};

class TreeLayout {
 public:
  explicit TreeLayout(const Tree& tree) : tree_(tree), below_(tree.bars.size()) {
    out_ = tree;
    out_.bars.clear();
    out_.roots.clear();
    // Children stand behind their parents, so one backward pass sums everything up.
    for (size_t i = tree.bars.size(); i-- > 0;) {
      const Bar& bar = tree.bars[i];
      Below& b = below_[i];
      b.tokens += bar.tokens;
      b.saved += bar.saved();
      b.requests = bar.requests;
      if (bar.children.empty()) b.leaves = 1;
      if (bar.parent >= 0) {
        Below& up = below_[static_cast<size_t>(bar.parent)];
        up.tokens += b.tokens;
        up.saved += b.saved;
        up.leaves += b.leaves;
      }
    }
  }

  Tree fold(int32_t max_rows) {
    out_.rows = place(tree_.roots, {-1, 0}, 0, std::max(max_rows, 1));
    return std::move(out_);
  }

 private:
  struct Above {
    int32_t parent;
    int32_t depth;
  };

  // Places siblings under each other from row on, at most `rows` rows; returns rows used.
  int32_t place(std::vector<int32_t> siblings, Above above, int32_t row, int32_t rows) {
    std::vector<int32_t> rest;
    if (above.depth == kMaxDepth) {
      rest = std::move(siblings);
      siblings.clear();
    } else if (siblings.size() > static_cast<size_t>(rows)) {
      // Keep the branches that stand for most of what was given; of equal ones the first.
      std::sort(siblings.begin(), siblings.end(), [this](int32_t a, int32_t b) {
        const int64_t x = at(a).tokens + at(a).saved;
        const int64_t y = at(b).tokens + at(b).saved;
        return x != y ? x > y : a < b;
      });
      rest.assign(siblings.begin() + rows - 1, siblings.end());
      siblings.resize(static_cast<size_t>(rows) - 1);
      std::sort(siblings.begin(), siblings.end());
    }
    // Every branch has one row; what is left goes to those that can use more, in turns.
    std::vector<int32_t> share(siblings.size(), 1);
    int32_t left = rows - static_cast<int32_t>(siblings.size()) - (rest.empty() ? 0 : 1);
    for (bool given = true; given && left > 0;) {
      given = false;
      for (size_t i = 0; i < siblings.size() && left > 0; ++i) {
        if (share[i] >= at(siblings[i]).leaves) continue;
        ++share[i];
        --left;
        given = true;
      }
    }
    int32_t used = 0;
    for (size_t i = 0; i < siblings.size(); ++i)
      used += place_bar(siblings[i], above, row + used, share[i]);
    if (!rest.empty()) {
      place_folded(rest, above.parent, row + used);
      ++used;
    }
    return used;
  }

  int32_t place_bar(int32_t index, Above above, int32_t row, int32_t rows) {
    Bar bar = tree_.bars[static_cast<size_t>(index)];
    std::vector<int32_t> children = std::move(bar.children);
    bar.children.clear();
    if (bar.heading) bar.inside = at(index).tokens;
    const int32_t self = append(std::move(bar), above.parent, row);
    if (children.empty()) return 1;
    const int32_t used = place(std::move(children), {self, above.depth + 1}, row, rows);
    out_.bars[static_cast<size_t>(self)].rows = used;
    return used;
  }

  void place_folded(const std::vector<int32_t>& branches, int32_t parent, int32_t row) {
    Bar bar;
    bar.requests = 0;
    bar.folded = static_cast<int64_t>(branches.size());
    for (const int32_t branch : branches) {
      bar.tokens += at(branch).tokens;
      bar.folded_saved += at(branch).saved;
      bar.requests += at(branch).requests;
    }
    append(std::move(bar), parent, row);
  }

  int32_t append(Bar bar, int32_t parent, int32_t row) {
    const auto self = static_cast<int32_t>(out_.bars.size());
    bar.parent = parent;
    bar.row = row;
    bar.rows = 1;
    out_.bars.push_back(std::move(bar));
    (parent < 0 ? out_.roots : out_.bars[static_cast<size_t>(parent)].children).push_back(self);
    return self;
  }

  const Below& at(int32_t index) const { return below_[static_cast<size_t>(index)]; }

  const Tree& tree_;
  std::vector<Below> below_;
  Tree out_;
};

}  // namespace

Tree fold(const Tree& tree, int32_t max_rows) { return TreeLayout(tree).fold(max_rows); }

}  // namespace prefix_cli
