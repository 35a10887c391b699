// What a picture says: the words and colours for the tree of a batch, and for that of a cache.
#pragma once

#include <optional>
#include <string>

#include "tree_model.h"

namespace prefix_cli {

class TreeWords {
 public:
  virtual ~TreeWords() = default;

  virtual std::string title() const = 0;
  virtual std::string colours() const = 0;  // what each means, in a picture
  virtual std::string marks() const = 0;    // what each means, in text; a line or nothing
  virtual std::string totals(const Tree& tree) const = 0;
  // Of a bar: in a line of text, in the bar itself, below that when there is room for two lines,
  // and in the box that opens under the pointer.
  virtual std::string line(const Bar& bar) const = 0;
  virtual std::string brief(const Bar& bar) const = 0;
  virtual std::string second(const Bar& bar) const = 0;
  virtual std::string full(const Bar& bar) const = 0;
  virtual std::string mark(const Bar& bar) const = 0;  // before its line of text
  // max_requests: the largest number of requests of any bar. svg: also rgb(); dot:
  // "" is the default.
  virtual std::string svg_colour(const Bar& bar, int64_t max_requests) const = 0;
  virtual std::string dot_colour(const Bar& bar) const = 0;
  // How much of what was given is computed, in [0, 1]; nothing when there is no such part.
  virtual std::optional<double> computed_part(const Tree& tree) const = 0;
};

const TreeWords& batch_words();
const TreeWords& cache_words();

}  // namespace prefix_cli
