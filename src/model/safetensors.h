// Strict reader of safetensors files.
//
//   | 8 bytes: header length, little-endian | JSON header | tensor data, without holes or overlap |
#pragma once

#include <string>

#include "model/tensor_file.h"

namespace prefix {

// One file. Throws kFormat naming the rule, the tensor and the numbers when a rule is broken.
void read_safetensors(const std::string& path, TensorSource& out);

// model.safetensors.index.json: every tensor of its weight map exactly once, file names without any
// path in them, all in the directory of the index.
void read_sharded_safetensors(const std::string& index_path, TensorSource& out);

}  // namespace prefix
