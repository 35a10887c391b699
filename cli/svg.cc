// The SVG picture: time runs to the right, in tokens; what lies to the left of a bar is its prefix.
//
//   +--------------------+-----------+
//   |                    | own       |   a shared bar is as high as everything that uses it
//   |  shared, x 3       +-----------+
//   |                    | own   |
//   |                    +-------+---+
//   |                    | own       |
//   +--------------------+-----------+
#include <algorithm>
#include <cmath>
#include <vector>

#include "common.h"
#include "tree_model.h"

namespace prefix_cli {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 16;
constexpr double kRow = 22;
constexpr double kTop = 64;
constexpr double kCharacter = 6.4;  // of the 11 px font, on average

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out;
}

// One decimal is a tenth of a pixel: enough, and the file stays small.
std::string px(double value) {
  const auto tenths = static_cast<int64_t>(std::lround(value * 10));
  return cat(tenths / 10, ".", tenths % 10);
}

// A prefix of thousands of tokens and a question of ten must both be seen, so lengths are drawn as
// square roots; the numbers are in the bars.
double raw_width(const Bar& bar) {
  if (bar.folded) return 4;
  return 3 + std::sqrt(static_cast<double>(bar.tokens));
}

// Cut at a character, not inside one of several bytes.
std::string shortened(const std::string& text, double width) {
  const auto limit = static_cast<size_t>(std::max(0.0, width / kCharacter));
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++characters > limit) return limit < 4 ? "" : text.substr(0, i) + "…";
  }
  return text;
}

std::string colour(const Bar& bar, int64_t most) {
  if (bar.folded) return "url(#folded)";
  if (bar.requests < 2) return "#d9dee5";
  // Darker = shared by more sequences, on a logarithmic scale.
  const double t = std::log2(static_cast<double>(bar.requests)) /
                   std::max(1.0, std::log2(static_cast<double>(most)));
  const auto mix = [t](double from, double to) {
    return static_cast<int>(std::lround(from + (to - from) * t));
  };
  return cat("rgb(", mix(186, 70), ",", mix(226, 168), ",", mix(188, 92), ")");
}

std::string short_text(const Bar& bar) {
  if (bar.folded)
    return cat("+ ", grouped(bar.folded), " branches, ", grouped(bar.tokens), " tokens");
  if (bar.requests < 2) return grouped(bar.tokens);
  return cat(grouped(bar.tokens), " × ", grouped(bar.requests));
}

std::string long_text(const Bar& bar) {
  if (bar.folded)
    return cat(grouped(bar.folded), " branches folded: ", grouped(bar.requests), " sequences, ",
               grouped(bar.tokens), " tokens, ", grouped(bar.saved()), " saved");
  std::string text = cat(grouped(bar.tokens), " tokens, ", grouped(bar.requests), " sequences, ",
                         grouped(bar.saved()), " saved");
  if (bar.ends) text += cat(", ", grouped(bar.ends), " end here");
  return bar.label.empty() ? text : text + "\n" + bar.label;
}

std::string caption(double x, double y, int size, const std::string& text) {
  return cat("<text x=\"", px(x), "\" y=\"", px(y), "\" font-size=\"", size, "\">", escaped(text),
             "</text>\n");
}

std::string draw(const Bar& bar, double x, double width, int64_t most) {
  const double y = kTop + bar.row * kRow;
  const double height = bar.rows * kRow - 2;
  std::string out = cat("<g><title>", escaped(long_text(bar)), "</title>");
  out += cat("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(std::max(1.0, width - 2)),
             "\" height=\"", px(height), "\" rx=\"2\" fill=\"", colour(bar, most),
             "\" stroke=\"#5a6472\" stroke-width=\"0.6\"/>");
  // A folded bar is short and stands at the end of its row, so its text may go beyond it.
  const double room = bar.folded ? 400 : width - 10;
  const double text_x = bar.folded ? x + width + 4 : x + 5;
  const bool two_lines = bar.rows > 1;
  const double middle = y + height / 2 + (two_lines ? -3 : 4);
  out += caption(
      text_x, middle, 11,
      shortened(two_lines || bar.folded || bar.label.empty() ? short_text(bar)
                                                             : short_text(bar) + "  " + bar.label,
                room));
  if (two_lines)
    out += caption(text_x, middle + 14, 10,
                   shortened(bar.saved() ? cat("saves ", grouped(bar.saved())) : bar.label, room));
  return out + "</g>\n";
}

}  // namespace

std::string svg_picture(const SharedTree& tree) {
  std::vector<double> left(tree.bars.size());
  double extent = 1;
  bool has_folded = false;
  int64_t most = 2;
  for (size_t i = 0; i < tree.bars.size(); ++i) {
    const Bar& bar = tree.bars[i];
    if (bar.parent >= 0) {
      const auto parent = static_cast<size_t>(bar.parent);
      left[i] = left[parent] + raw_width(tree.bars[parent]);
    }
    extent = std::max(extent, left[i] + raw_width(bar));
    has_folded |= bar.folded > 0;
    if (!bar.folded) most = std::max(most, bar.requests);
  }
  const double scale = (kWidth - 2 * kMargin - (has_folded ? 200 : 0)) / extent;
  const double bottom = kTop + tree.rows * kRow;
  const double height = bottom + 60;
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", px(kWidth),
                        "\" height=\"", px(height), "\" viewBox=\"0 0 ", px(kWidth), " ",
                        px(height), "\" font-family=\"sans-serif\" fill=\"#1d232b\">\n");
  out +=
      "<defs><pattern id=\"folded\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
      "<rect width=\"6\" height=\"6\" fill=\"#f2f2f2\"/>"
      "<path d=\"M0 6L6 0\" stroke=\"#8a939f\"/></pattern></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  out += caption(kMargin, 26, 16, "Prefix tree of the batch");
  out += caption(kMargin, 46, 11,
                 "left to right: tokens of a sequence (square-root scale); green: shared, computed "
                 "once; grey: used by one sequence");
  for (size_t i = 0; i < tree.bars.size(); ++i)
    out += draw(tree.bars[i], kMargin + left[i] * scale, raw_width(tree.bars[i]) * scale, most);
  out += caption(kMargin, bottom + 24, 13, totals_line(tree));
  // What was given against what is computed, to scale.
  const double full = kWidth - 2 * kMargin;
  const double part =
      tree.given ? full * static_cast<double>(tree.computed) / static_cast<double>(tree.given) : 0;
  const auto band = [&](double x, double width, const char* fill) {
    return cat("<rect x=\"", px(x), "\" y=\"", px(bottom + 34), "\" width=\"", px(width),
               "\" height=\"10\" fill=\"", fill, "\"/>\n");
  };
  out += band(kMargin, part, "#5a6472") + band(kMargin + part, full - part, "#b7dfb9");
  return out + "</svg>\n";
}

}  // namespace prefix_cli
