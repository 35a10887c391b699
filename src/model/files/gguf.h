// Strict reader of GGUF files, version 2 and 3, little-endian.
//
//   | "GGUF" version | counts of tensors, keys | keys: name, type, value | tensor infos | pad | data
//
//   tensor info = name, dimensions (fastest first), type, offset from the begin of the data
//
// Every count, length, product and offset is checked against the file before it is used: this
// family of parsers has the worst record of all model formats. Nothing is allocated from a count
// that the file could not hold. Tensors lie one behind the other, each padded to the alignment,
// with nothing else between or behind them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/input_file.h"
#include "model/files/gguf_metadata.h"
#include "model/files/tensor_file.h"

namespace prefix {

struct GgufLimits {
  static constexpr uint64_t kKeys = 65536;
  static constexpr uint64_t kKeyBytes = 65535;
  static constexpr uint64_t kTensorNameBytes = 1024;
  static constexpr uint64_t kStringBytes = 64 << 20;
  static constexpr uint32_t kDimensions = 4;
  static constexpr int64_t kAlignment = 1 << 20;
};

// Throws kFormat naming the rule, the key or tensor, and the numbers; kUnsupportedModel for other
// versions, block types and one part of a split file.
void read_gguf(std::shared_ptr<const InputFile> file, GgufMetadata& metadata, TensorSource& out);

// Where a file has its keys.
struct GgufKeys {
  uint32_t version = 0;
  uint64_t count = 0;
  uint64_t begin = 0, end = 0;
  uint64_t alignment = 0;
};
// Of a file that read_gguf() reads.
GgufKeys find_gguf_keys(const InputFile& file);

inline constexpr uint32_t kGgufString = 8;  // the type of a value
// The number of a tensor's type; one that read_gguf() gives.
uint32_t gguf_type(TensorType type);

}  // namespace prefix
