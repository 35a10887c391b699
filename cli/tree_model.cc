#include "tree_model.h"

#include <algorithm>
#include <cstdio>

#include "common.h"

namespace prefix_cli {
namespace {

// What lies below a bar, itself included.
struct Below {
  int64_t tokens = 0;
  int64_t saved = 0;
  int64_t requests = 0;
  int64_t bars = 0;
  int32_t leaves = 0;
};

class Folder {
 public:
  Folder(const SharedTree& tree) : tree_(tree), below_(tree.bars.size()) {
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
      ++b.bars;
      if (bar.children.empty()) b.leaves = 1;
      if (bar.parent >= 0) {
        Below& up = below_[static_cast<size_t>(bar.parent)];
        up.tokens += b.tokens;
        up.saved += b.saved;
        up.bars += b.bars;
        up.leaves += b.leaves;
      }
    }
  }

  SharedTree fold(int32_t max_rows) {
    out_.rows = place(tree_.roots, -1, 0, std::max(max_rows, 1));
    return std::move(out_);
  }

 private:
  // Places siblings under each other from row on, at most `rows` rows; returns rows used.
  int32_t place(std::vector<int32_t> siblings, int32_t parent, int32_t row, int32_t rows) {
    const auto count = static_cast<int32_t>(siblings.size());
    std::vector<int32_t> rest;
    if (count > rows) {
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
      used += place_bar(siblings[i], parent, row + used, share[i]);
    if (!rest.empty()) {
      place_folded(rest, parent, row + used);
      ++used;
    }
    return used;
  }

  int32_t place_bar(int32_t index, int32_t parent, int32_t row, int32_t rows) {
    Bar bar = tree_.bars[static_cast<size_t>(index)];
    const std::vector<int32_t> children = std::move(bar.children);
    bar.children.clear();
    const int32_t self = append(std::move(bar), parent, row);
    if (children.empty()) return 1;
    const int32_t used = place(children, self, row, rows);
    out_.bars[static_cast<size_t>(self)].rows = used;
    return used;
  }

  void place_folded(const std::vector<int32_t>& branches, int32_t parent, int32_t row) {
    Bar bar;
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

  const SharedTree& tree_;
  std::vector<Below> below_;
  SharedTree out_;
};

std::string bar_text(const Bar& bar) {
  if (bar.folded)
    return cat("+ ", grouped(bar.folded), " branches folded: ", grouped(bar.requests),
               " sequences, ", grouped(bar.tokens), " tokens",
               bar.saved() ? cat(", saves ", grouped(bar.saved())) : "");
  std::string text = cat(grouped(bar.tokens), bar.tokens == 1 ? " token" : " tokens");
  if (bar.requests > 1) text += cat(" x ", grouped(bar.requests), ", saves ", grouped(bar.saved()));
  if (bar.ends > 0 && !bar.children.empty()) text += cat(", ", grouped(bar.ends), " end here");
  return text;
}

void text_bars(const SharedTree& tree, const std::vector<int32_t>& siblings,
               const std::string& indent, std::string& out) {
  for (size_t i = 0; i < siblings.size(); ++i) {
    const Bar& bar = tree.bars[static_cast<size_t>(siblings[i])];
    const bool last = i + 1 == siblings.size();
    out += cat(indent, last ? "└─ " : "├─ ", bar.requests > 1 && !bar.folded ? "# " : "",
               bar_text(bar), bar.label.empty() ? "" : cat("  ", bar.label), "\n");
    text_bars(tree, bar.children, indent + (last ? "   " : "│  "), out);
  }
}

std::string dot_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

SharedTree fold(const SharedTree& tree, int32_t max_rows) { return Folder(tree).fold(max_rows); }

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string totals_line(const SharedTree& tree) {
  const int64_t saved = tree.given - tree.computed;
  char percent[32];
  std::snprintf(
      percent, sizeof(percent), "%.1f %%",
      tree.given ? 100.0 * static_cast<double>(saved) / static_cast<double>(tree.given) : 0.0);
  std::string text = cat(grouped(tree.requests), tree.requests == 1 ? " request" : " requests");
  if (tree.sequences != tree.requests) text += cat(", ", grouped(tree.sequences), " sequences");
  return cat(text, ", ", grouped(tree.given), " tokens given, ", grouped(tree.computed),
             " computed, ", grouped(saved), " saved (", percent, ")");
}

std::string text_picture(const SharedTree& tree) {
  std::string out;
  text_bars(tree, tree.roots, "", out);
  return out + totals_line(tree) + "\n# = shared tokens, computed once\n";
}

std::string dot_picture(const SharedTree& tree) {
  std::string out =
      "digraph batch {\n  rankdir=LR;\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", fillcolor=\"#eeeeee\"];\n";
  out += cat("  label=\"", totals_line(tree), "\";\n  fontname=\"sans-serif\";\n");
  for (size_t i = 0; i < tree.bars.size(); ++i) {
    const Bar& bar = tree.bars[i];
    out += cat("  n", i, " [label=\"", dot_escaped(bar_text(bar)),
               bar.label.empty() ? "" : "\\n" + dot_escaped(bar.label), "\"");
    if (bar.folded)
      out += ", style=dashed";
    else if (bar.requests > 1)
      out += ", fillcolor=\"#b7dfb9\"";
    out += "];\n";
    if (bar.parent >= 0) out += cat("  n", bar.parent, " -> n", i, ";\n");
  }
  return out + "}\n";
}

}  // namespace prefix_cli
