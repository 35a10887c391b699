// Strict reader of safetensors files.
//
//   | 8 bytes: header length, little-endian | JSON header | tensor data, without holes or overlap |
//
// The header maps each tensor name to {"dtype", "shape", "data_offsets": [begin, end)}; offsets
// count from the end of the header. Every byte of the data belongs to exactly one tensor, so a
// file cannot carry a second one inside it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/input_file.h"
#include "base/input_folder.h"
#include "model/files/tensor_file.h"

namespace prefix {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // the limit of the format itself
inline constexpr size_t kMaxSafetensorsDimensions = 8;
inline constexpr size_t kMaxShards = 1024;

// One file. Throws kFormat naming the rule, the tensor and the numbers when a rule is broken.
// Tensors of an element type that is neither F32, F16, BF16 nor one that quantised weights are made
// of (model/files/quantised_tensors.h) are of type kUnread:
// what uses one refuses it (require_numbers).
//
// metadata: what the file says of itself, key by key; null: dropped.
void read_safetensors(std::shared_ptr<const InputFile> file, TensorSource& out,
                      std::map<std::string, std::string>* metadata = nullptr);

// `index`, model.safetensors.index.json: every tensor of its weight map exactly once. The file
// names in it are untrusted: a name without any path in it, of a file in the directory of the index
// (or, as in a Hugging Face cache, a link into the `blobs` folder of the same repository).
void read_sharded_safetensors(const InputFolder& folder, const std::string& index,
                              TensorSource& out);

}  // namespace prefix
