#include "engine/tree_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "base/json_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr int32_t kMaxRows = 120;
constexpr int32_t kMaxDepth = 48;  // boxes side by side
constexpr size_t kMaxParts = 8;    // of a namespace, in its label
constexpr int32_t kRowHeight = 20;
constexpr double kWidth = 1200;
constexpr double kLeft = 150;
constexpr double kTop = 44;

struct Weight {
  int64_t tokens = 0;
  int64_t nodes = 0;
};

// Builds the boxes from the top, giving every branch a share of the rows.
class TreeLayout {
 public:
  explicit TreeLayout(const Tree& tree)
      : tree_(tree), weights_(static_cast<size_t>(tree.node_limit())) {}

  TreePicture run(const std::vector<std::pair<NodeId, std::string>>& roots) {
    picture_.tokens = tree_.token_count();
    for (const auto& [root, label] : roots) {
      weigh(root);
      picture_.nodes += weight(root).nodes;
    }
    std::vector<size_t> drawn(roots.size());
    std::iota(drawn.begin(), drawn.end(), size_t{0});
    PictureBox rest;
    const bool all = roots.size() <= kMaxRows;
    if (!all) {
      std::stable_sort(drawn.begin(), drawn.end(), [&](size_t a, size_t b) {
        return weight(roots[a].first).tokens > weight(roots[b].first).tokens;
      });
      for (size_t i = kMaxRows - 1; i < drawn.size(); ++i) {
        rest.tokens += weight(roots[drawn[i]].first).tokens;
        rest.folded += weight(roots[drawn[i]].first).nodes;
      }
      drawn.resize(kMaxRows - 1);  // and a row for the rest
      std::sort(drawn.begin(), drawn.end());
      rest.label = cat("+ ", roots.size() - drawn.size(), " namespaces");
    }
    for (size_t i = 0; i < drawn.size(); ++i)
      add_root(roots[drawn[i]], static_cast<int32_t>(drawn.size() - i) + (all ? 0 : 1));
    if (!all) add(std::move(rest), 1);
    return std::move(picture_);
  }

 private:
  // Every node after its parent; then the sums backwards.
  void weigh(NodeId root) {
    std::vector<NodeId> order{root};
    for (size_t i = 0; i < order.size(); ++i)
      for (NodeId c = tree_.node(order[i]).first_child; c != kNoNode; c = tree_.node(c).next)
        order.push_back(c);
    for (size_t i = order.size(); i-- > 0;) {
      const Node& n = tree_.node(order[i]);
      Weight& w = weights_[static_cast<size_t>(order[i])];
      w.tokens += n.length;
      w.nodes += n.length > 0;
      if (i == 0) continue;
      Weight& above = weights_[static_cast<size_t>(n.parent)];
      above.tokens += w.tokens;
      above.nodes += w.nodes;
    }
  }
  const Weight& weight(NodeId id) const { return weights_[static_cast<size_t>(id)]; }

  // `left`: roots that are still to be drawn, with this one.
  void add_root(const std::pair<NodeId, std::string>& root, int32_t left) {
    PictureBox box;
    box.label = root.second;
    box.node = root.first;
    box.tokens = weight(root.first).tokens;
    add(std::move(box), (kMaxRows - picture_.rows) / left);
  }

  // Depth first without recursion: a path may be very deep. A box takes no more than its rows.
  void add(PictureBox top, int32_t budget) {
    struct Open {
      PictureBox box;
      int32_t rows;
      int32_t depth;
    };
    std::vector<Open> open;
    open.push_back({std::move(top), budget, 0});
    while (!open.empty()) {
      auto [box, rows, depth] = std::move(open.back());
      open.pop_back();
      const auto number = static_cast<int32_t>(picture_.boxes.size());
      const NodeId id = box.node;
      box.row = picture_.rows;
      picture_.boxes.push_back(std::move(box));
      std::vector<NodeId> children;
      if (id != kNoNode)
        for (NodeId c = tree_.node(id).first_child; c != kNoNode; c = tree_.node(c).next)
          children.push_back(c);
      if (children.empty()) {
        end_row(number);
        continue;
      }
      size_t drawn = children.size();
      if (depth == kMaxDepth) drawn = 0;
      if (drawn > static_cast<size_t>(rows)) {
        drawn = static_cast<size_t>(rows) - 1;  // and a row for the rest
        std::stable_sort(children.begin(), children.end(),
                         [&](NodeId a, NodeId b) { return weight(a).tokens > weight(b).tokens; });
      }
      const size_t first_next = open.size();
      if (drawn < children.size()) {
        open.push_back({rest_of(children, drawn, number), 1, depth + 1});
        --rows;
      }
      for (size_t i = 0; i < drawn; ++i) {
        const int32_t share = rows / static_cast<int32_t>(drawn - i);
        rows -= share;
        open.push_back({box_of(children[i], number), share, depth + 1});
      }
      std::reverse(
          open.begin() + static_cast<ptrdiff_t>(first_next) + (drawn < children.size() ? 1 : 0),
          open.end());
    }
  }
  // A box without boxes to its right, and all to its left, reach to here.
  void end_row(int32_t number) {
    ++picture_.rows;
    for (; number >= 0; number = picture_.boxes[static_cast<size_t>(number)].parent) {
      PictureBox& box = picture_.boxes[static_cast<size_t>(number)];
      box.rows = picture_.rows - box.row;
    }
  }
  PictureBox rest_of(const std::vector<NodeId>& children, size_t first, int32_t parent) const {
    PictureBox box;
    box.parent = parent;
    box.start = tree_.node(children[first]).start;
    for (size_t i = first; i < children.size(); ++i) {
      box.tokens += weight(children[i]).tokens;
      box.folded += weight(children[i]).nodes;
    }
    return box;
  }
  PictureBox box_of(NodeId id, int32_t parent) const {
    const Node& n = tree_.node(id);
    PictureBox box;
    box.parent = parent;
    box.node = id;
    box.start = n.start;
    box.tokens = n.length;
    box.pending = n.length - n.computed;
    box.held = n.subtree_locks;
    box.uses = n.uses;
    return box;
  }

  const Tree& tree_;
  std::vector<Weight> weights_;  // of subtrees, by node
  TreePicture picture_;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

const char* colour(const PictureBox& box) {
  if (box.folded > 0) return "#eeeeee";
  if (box.pending > 0) return "#f7d9a8";
  if (box.held > 0) return "#a9cdf0";
  return "#bfe0c0";
}

std::string words(const PictureBox& box) {
  if (box.parent < 0) return cat(box.label, ": ", box.tokens, " tokens");
  if (box.folded > 0) return cat("+ ", box.folded, " nodes, ", box.tokens, " tokens");
  std::string text = cat(box.tokens, " tokens at ", box.start, ", used ", box.uses, " times");
  if (box.pending > 0) text += cat(", ", box.pending, " being computed");
  if (box.held > 0) text += cat(", in use by ", box.held);
  return text;
}

// Long prefixes and short questions must both be seen: square roots, the numbers are in the boxes.
double width_of(const PictureBox& box) {
  return box.folded > 0 ? 6 : 2 + std::sqrt(static_cast<double>(box.tokens));
}

std::string number(double value) {
  const auto tenths = static_cast<int64_t>(std::lround(value * 10));
  return cat(tenths / 10, '.', tenths % 10);
}

}  // namespace

std::string tree_json(const Tree& tree) {
  JsonText json;
  json.open('{').field("tokens", tree.token_count()).key("nodes").open('[');
  for (NodeId id = 0; id < tree.node_limit(); ++id) {
    const Node& n = tree.node(id);
    if (n.root < 0) continue;
    json.open('{').field("node", id).field("parent", n.parent).field("root", tree.root(n));
    json.field("start", n.start).field("tokens", n.length).field("computed", n.computed);
    json.field("locks", n.locks).field("held", n.subtree_locks).field("pages", tree.page_count(n));
    json.field("uses", n.uses).field("priority", n.priority).field("last_use", n.last_use);
    json.close('}');
  }
  return json.close(']').close('}').text();
}

TreePicture picture_of(const Tree& tree, const std::vector<std::pair<NodeId, std::string>>& roots) {
  return TreeLayout(tree).run(roots);
}

std::string tree_dot(const TreePicture& picture) {
  std::string out =
      "digraph prefix {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=sans];\n";
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    std::string label;
    for (const char c : words(box)) {
      if (c == '"' || c == '\\') label += '\\';
      label += c;
    }
    out += cat("  n", i, " [label=\"", label, "\", fillcolor=\"",
               box.parent < 0 ? "#ffffff" : colour(box), "\"];\n");
    if (box.parent >= 0) out += cat("  n", box.parent, " -> n", i, ";\n");
  }
  return out + "}\n";
}

std::string tree_svg(const TreePicture& picture) {
  std::vector<double> left(picture.boxes.size());
  double extent = 1;
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    if (box.parent < 0) continue;
    const PictureBox& above = picture.boxes[static_cast<size_t>(box.parent)];
    left[i] = left[static_cast<size_t>(box.parent)] + (above.parent < 0 ? 0 : width_of(above));
    extent = std::max(extent, left[i] + width_of(box));
  }
  const double scale = (kWidth - kLeft - 180) / extent;
  const double height = kTop + picture.rows * kRowHeight + 20;
  std::string out =
      cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(kWidth), "\" height=\"",
          number(height), "\" font-family=\"sans-serif\" font-size=\"11\">\n",
          "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
          "<text x=\"12\" y=\"20\" font-size=\"14\">", picture.tokens, " tokens in ", picture.nodes,
          " nodes</text>\n",
          "<text x=\"12\" y=\"36\">to the right: tokens (square-root scale); green: cached, "
          "blue: in use, orange: being computed</text>\n");
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    const double y = kTop + box.row * kRowHeight;
    const double h = box.rows * kRowHeight - 2;
    const std::string text = escaped(words(box));
    if (box.parent < 0) {
      out += cat("<g><title>", text, "</title><text x=\"12\" y=\"", number(y + 14), "\">",
                 escaped(box.label), "</text></g>\n");
      continue;
    }
    const double x = kLeft + left[i] * scale;
    const double w = std::max(1.0, width_of(box) * scale - 1);
    out += cat("<g><title>", text, "</title><rect x=\"", number(x), "\" y=\"", number(y),
               "\" width=\"", number(w), "\" height=\"", number(h), "\" fill=\"", colour(box),
               "\" stroke=\"#5a6472\" stroke-width=\"0.5\"/>");
    const std::string shown = box.folded > 0 ? words(box) : cat(box.tokens);
    if (box.folded > 0 || w > 7.0 * static_cast<double>(shown.size()))
      out += cat("<text x=\"", number(box.folded > 0 ? x + w + 4 : x + 4), "\" y=\"",
                 number(y + h / 2 + 4), "\">", shown, "</text>");
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

std::string namespace_label(const NamespaceParts& parts) {
  if (parts.empty()) return "(default)";
  std::string label;
  for (size_t i = 0; i < std::min(parts.size(), kMaxParts); ++i) {
    const std::string part = quote(parts[i], 60);  // a name may be anything: make it fit to print
    label += cat(i > 0 ? " / " : "", std::string_view(part).substr(1, part.size() - 2));
  }
  if (parts.size() > kMaxParts) label += " / ...";
  return label;
}

}  // namespace prefix
