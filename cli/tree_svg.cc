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
#include "tree_picture.h"

namespace prefix_cli {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 16;
constexpr double kHeadings = 150;  // the column of the namespaces
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
  if (bar.heading) return 0;
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

std::string caption(double x, double y, int size, const std::string& text) {
  return cat("<text x=\"", px(x), "\" y=\"", px(y), "\" font-size=\"", size, "\">", escaped(text),
             "</text>\n");
}

std::string draw(const Bar& bar, const TreeWords& words, double x, double width,
                 int64_t max_requests) {
  const double y = kTop + bar.row * kRow;
  const double height = bar.rows * kRow - 2;
  std::string out = cat("<g><title>", escaped(words.full(bar)), "</title>");
  if (bar.heading)
    return cat(out, caption(kMargin, y + 14, 11, shortened(bar.label, kHeadings - 10)), "</g>\n");
  out += cat("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(std::max(1.0, width - 2)),
             "\" height=\"", px(height), "\" rx=\"2\" fill=\"",
             bar.folded ? "url(#folded)" : words.svg_colour(bar, max_requests),
             "\" stroke=\"#5a6472\" stroke-width=\"0.6\"/>");
  // A folded bar is short and stands at the end of its row, so its text may go beyond it.
  const double room = bar.folded ? 400 : width - 10;
  const double text_x = bar.folded ? x + width + 4 : x + 5;
  const bool two_lines = bar.rows > 1;
  const double middle = y + height / 2 + (two_lines ? -3 : 4);
  std::string text = words.brief(bar);
  if (!two_lines && !bar.folded && !bar.label.empty()) text += "  " + bar.label;
  out += caption(text_x, middle, 11, shortened(text, room));
  if (two_lines) out += caption(text_x, middle + 14, 10, shortened(words.second(bar), room));
  return out + "</g>\n";
}

}  // namespace

std::string svg_picture(const Tree& tree, const TreeWords& words) {
  std::vector<double> left(tree.bars.size());
  double extent = 1;
  bool has_folded = false;
  bool has_headings = false;
  int64_t max_requests = 2;
  for (size_t i = 0; i < tree.bars.size(); ++i) {
    const Bar& bar = tree.bars[i];
    if (bar.parent >= 0) {
      const auto parent = static_cast<size_t>(bar.parent);
      left[i] = left[parent] + raw_width(tree.bars[parent]);
    }
    extent = std::max(extent, left[i] + raw_width(bar));
    has_folded |= bar.folded > 0;
    has_headings |= bar.heading;
    if (!bar.folded) max_requests = std::max(max_requests, bar.requests);
  }
  const double first = kMargin + (has_headings ? kHeadings : 0);
  const double scale = (kWidth - kMargin - first - (has_folded ? 200 : 0)) / extent;
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
  out += caption(kMargin, 26, 16, words.title());
  out += caption(kMargin, 46, 11,
                 "left to right: tokens of a sequence (square-root scale); " + words.colours());
  for (size_t i = 0; i < tree.bars.size(); ++i)
    out += draw(tree.bars[i], words, first + left[i] * scale, raw_width(tree.bars[i]) * scale,
                max_requests);
  out += caption(kMargin, bottom + 24, 13, words.totals(tree));
  const std::optional<double> computed = words.computed_part(tree);
  if (!computed) return out + "</svg>\n";
  // What was given against what is computed, to scale.
  const double full = kWidth - 2 * kMargin;
  const double part = full * *computed;
  const auto band = [&](double x, double width, const char* fill) {
    return cat("<rect x=\"", px(x), "\" y=\"", px(bottom + 34), "\" width=\"", px(width),
               "\" height=\"10\" fill=\"", fill, "\"/>\n");
  };
  out += band(kMargin, part, "#5a6472") + band(kMargin + part, full - part, "#b7dfb9");
  return out + "</svg>\n";
}

}  // namespace prefix_cli
