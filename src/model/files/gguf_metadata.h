// The key-value pairs of a GGUF file, with typed and checked access.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/label_head.h"

namespace prefix {

// A list in the metadata. Vocabularies are the text library's, so of most lists only the length is
// kept; short ones of whole numbers or booleans say something for each layer, those of texts name
// labels.
struct GgufList {
  // The longest list that is kept.
  static uint64_t most(std::string_view key) {
    return key.ends_with(".classifier.output_labels") ? kMaxLabels : 1024;
  }
  uint64_t length = 0;
  std::vector<int64_t> values;  // these two are empty when they were not kept
  std::vector<std::string> texts;
};

// Integers of every width are widened; those beyond int64 are refused by the reader.
using GgufValue = std::variant<int64_t, double, bool, std::string, GgufList>;

class GgufMetadata {
 public:
  bool has(const std::string& key) const { return values_.count(key) != 0; }
  // Throw kFormat naming the key, its value and the limits; with a default when absent.
  int64_t integer(const std::string& key, int64_t minimum, int64_t maximum) const;
  int64_t integer(const std::string& key, int64_t minimum, int64_t maximum, int64_t absent) const;
  double number(const std::string& key) const;  // finite; an integer counts
  double number(const std::string& key, double absent) const;
  bool boolean(const std::string& key, bool absent) const;
  // As many whole numbers (false and true are 0 and 1), each within the limits.
  std::vector<int64_t> integers(const std::string& key, size_t count, int64_t minimum,
                                int64_t maximum) const;
  bool is_list(const std::string& key) const;
  // A short list of texts; empty when the key is absent.
  std::vector<std::string> texts(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& absent) const;

  // False when the key is there already.
  bool add(const std::string& key, GgufValue value) {
    return values_.emplace(key, std::move(value)).second;
  }

 private:
  const GgufValue& require(const std::string& key) const;

  std::map<std::string, GgufValue> values_;
};

}  // namespace prefix
