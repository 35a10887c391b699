#include "tree_words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common.h"

namespace prefix_cli {
namespace {

// "1 token", "2,048 tokens"
std::string counted(int64_t number, const char* what) {
  return cat(grouped(number), " ", what, number == 1 ? "" : "s");
}

class BatchWords : public TreeWords {
 public:
  std::string title() const override { return "Prefix tree of the batch"; }
  std::string colours() const override {
    return "green: shared, computed once; grey: used by one sequence";
  }
  std::string marks() const override { return "# = shared tokens, computed once\n"; }

  std::string totals(const Tree& tree) const override {
    const int64_t saved = tree.given - tree.computed - tree.scored;
    char percent[32];
    std::snprintf(
        percent, sizeof(percent), "%.1f %%",
        tree.given ? 100.0 * static_cast<double>(saved) / static_cast<double>(tree.given) : 0.0);
    std::string text = counted(tree.requests, "request");
    if (tree.sequences != tree.requests) text += cat(", ", grouped(tree.sequences), " sequences");
    text += cat(", ", grouped(tree.given), " tokens given, ", grouped(tree.computed + tree.scored),
                " computed, ");
    if (tree.scored) text += cat(grouped(tree.scored), " of them only scored, ");
    return cat(text, grouped(saved), " saved (", percent, ")");
  }

  std::string line(const Bar& bar) const override {
    if (bar.folded)
      return cat("+ ", grouped(bar.folded), " branches folded: ", grouped(bar.requests),
                 " sequences, ", grouped(bar.tokens), " tokens",
                 bar.saved() ? cat(", saves ", grouped(bar.saved())) : "");
    std::string text = counted(bar.tokens, "token");
    if (bar.requests > 1)
      text += cat(" x ", grouped(bar.requests), ", saves ", grouped(bar.saved()));
    if (bar.ends > 0 && !bar.children.empty()) text += cat(", ", grouped(bar.ends), " end here");
    return text;
  }

  std::string brief(const Bar& bar) const override {
    if (bar.folded)
      return cat("+ ", grouped(bar.folded), " branches, ", grouped(bar.tokens), " tokens");
    if (bar.requests < 2) return grouped(bar.tokens);
    return cat(grouped(bar.tokens), " × ", grouped(bar.requests));
  }

  std::string second(const Bar& bar) const override {
    return bar.saved() ? cat("saves ", grouped(bar.saved())) : bar.label;
  }

  std::string full(const Bar& bar) const override {
    if (bar.folded)
      return cat(grouped(bar.folded), " branches folded: ", grouped(bar.requests), " sequences, ",
                 grouped(bar.tokens), " tokens, ", grouped(bar.saved()), " saved");
    std::string text = cat(grouped(bar.tokens), " tokens, ", grouped(bar.requests), " sequences, ",
                           grouped(bar.saved()), " saved");
    if (bar.ends) text += cat(", ", grouped(bar.ends), " end here");
    return bar.label.empty() ? text : text + "\n" + bar.label;
  }

  std::string mark(const Bar& bar) const override { return is_shared(bar) ? "# " : ""; }

  std::string svg_colour(const Bar& bar, int64_t max_requests) const override {
    if (!is_shared(bar)) return "#d9dee5";
    // Darker = shared by more sequences, on a logarithmic scale.
    const double t = std::log2(static_cast<double>(bar.requests)) /
                     std::max(1.0, std::log2(static_cast<double>(max_requests)));
    const auto mix = [t](double from, double to) {
      return static_cast<int>(std::lround(from + (to - from) * t));
    };
    return cat("rgb(", mix(186, 70), ",", mix(226, 168), ",", mix(188, 92), ")");
  }
  std::string dot_colour(const Bar& bar) const override { return is_shared(bar) ? "#b7dfb9" : ""; }

  std::optional<double> computed_part(const Tree& tree) const override {
    return tree.given ? static_cast<double>(tree.computed) / static_cast<double>(tree.given) : 0;
  }

 private:
  static bool is_shared(const Bar& bar) { return !bar.folded && bar.requests > 1; }
};

class CacheWords : public TreeWords {
 public:
  std::string title() const override { return "Prefix tree of the cache"; }
  std::string colours() const override {
    return "green: cached; blue: in use; orange: being computed";
  }
  std::string marks() const override { return ""; }

  std::string totals(const Tree& tree) const override {
    return cat(counted(tree.tokens, "token"), " in ", counted(tree.nodes, "node"), ", ",
               counted(tree.namespaces, "namespace"));
  }

  std::string line(const Bar& bar) const override { return full(bar); }
  std::string brief(const Bar& bar) const override {
    return bar.folded ? full(bar) : grouped(bar.tokens);
  }
  std::string second(const Bar& bar) const override {
    return bar.uses > 1 ? cat("used ", grouped(bar.uses), " times") : "";
  }
  std::string full(const Bar& bar) const override {
    if (bar.heading) return cat(bar.label, ": ", counted(bar.inside, "token"));
    if (bar.folded)
      return cat("+ ", grouped(bar.folded), bar.parent < 0 ? " namespaces, " : " branches, ",
                 counted(bar.tokens, "token"));
    std::string text = cat(counted(bar.tokens, "token"), " at ", grouped(bar.start), ", used ",
                           counted(bar.uses, "time"));
    if (bar.pending) text += cat(", ", grouped(bar.pending), " being computed");
    if (bar.held) text += cat(", in use by ", grouped(bar.held));
    return text;
  }
  std::string mark(const Bar&) const override { return ""; }

  std::string svg_colour(const Bar& bar, int64_t) const override {
    return bar.pending ? "#f7d9a8" : bar.held ? "#a9cdf0" : "#bfe0c0";
  }
  std::string dot_colour(const Bar& bar) const override {
    return bar.heading ? "#ffffff" : svg_colour(bar, 0);
  }

  std::optional<double> computed_part(const Tree&) const override { return std::nullopt; }
};

}  // namespace

const TreeWords& batch_words() {
  static const BatchWords words;
  return words;
}

const TreeWords& cache_words() {
  static const CacheWords words;
  return words;
}

}  // namespace prefix_cli
