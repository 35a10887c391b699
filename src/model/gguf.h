// Strict reader of GGUF files, version 2 and 3, little-endian.
//
//   | "GGUF" version | tensor count, key count | keys: name, type, value | tensor infos | pad | data |
//
// Every count, length, product and offset is checked against the file before it is used: this
// family of parsers has the worst record of all model formats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "model/tensor_file.h"

namespace prefix {

// A metadata value. Numbers are widened; arrays of numbers keep their values, and arrays of strings
// (vocabularies, which the core does not use) only their length.
struct GgufValue {
  std::variant<int64_t, double, bool, std::string, std::vector<double>> value;
  uint64_t array_length = 0;  // of a string or bool array
};

class GgufMetadata {
 public:
  bool has(const std::string& key) const { return values_.count(key) != 0; }
  // Throw kFormat naming the key, its value and the limits; with a default when absent.
  int64_t integer(const std::string& key, int64_t minimum, int64_t maximum) const;
  int64_t integer(const std::string& key, int64_t minimum, int64_t maximum, int64_t absent) const;
  double number(const std::string& key) const;
  double number(const std::string& key, double absent) const;
  std::string text(const std::string& key, const std::string& absent) const;

  std::map<std::string, GgufValue> values_;  // filled by read_gguf
};

void read_gguf(const std::string& path, GgufMetadata& metadata, TensorSource& out);

}  // namespace prefix
