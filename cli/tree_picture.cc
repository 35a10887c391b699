// The pictures that are lines of text: for a terminal, and for Graphviz.
#include "tree_picture.h"

#include "common.h"

namespace prefix_cli {
namespace {

void text_bars(const Tree& tree, const TreeWords& words, const std::vector<int32_t>& siblings,
               const std::string& indent, std::string& out) {
  for (size_t i = 0; i < siblings.size(); ++i) {
    const Bar& bar = tree.bars[static_cast<size_t>(siblings[i])];
    const bool last = i + 1 == siblings.size();
    out += cat(indent, last ? "└─ " : "├─ ", words.mark(bar), words.line(bar),
               bar.label.empty() || bar.heading ? "" : cat("  ", bar.label), "\n");
    text_bars(tree, words, bar.children, indent + (last ? "   " : "│  "), out);
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

std::string text_picture(const Tree& tree, const TreeWords& words) {
  std::string out;
  text_bars(tree, words, tree.roots, "", out);
  return cat(out, words.totals(tree), "\n", words.marks());
}

std::string dot_picture(const Tree& tree, const TreeWords& words) {
  std::string out =
      "digraph batch {\n  rankdir=LR;\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", fillcolor=\"#eeeeee\"];\n";
  out += cat("  label=\"", words.totals(tree), "\";\n  fontname=\"sans-serif\";\n");
  for (size_t i = 0; i < tree.bars.size(); ++i) {
    const Bar& bar = tree.bars[i];
    const bool labelled = !bar.label.empty() && !bar.heading;
    out += cat("  n", i, " [label=\"", dot_escaped(words.line(bar)),
               labelled ? "\\n" + dot_escaped(bar.label) : "", "\"");
    const std::string colour = words.dot_colour(bar);
    if (bar.folded)
      out += ", style=dashed";
    else if (!colour.empty())
      out += cat(", fillcolor=\"", colour, "\"");
    out += "];\n";
    if (bar.parent >= 0) out += cat("  n", bar.parent, " -> n", i, ";\n");
  }
  return out + "}\n";
}

}  // namespace prefix_cli
