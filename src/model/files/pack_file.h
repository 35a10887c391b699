// The two containers of packed models: what is written before the tensors, and where each lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "model/files/tensor_file.h"

namespace prefix {

// The begin of the file, up to the first tensor. Sets the offset of each in the file; they lie in
// their order. `text`: of kPackedKey.

// safetensors. Tensors begin where their bytes can be mapped, as long as each before them takes
// whole kilobytes.
std::string packed_safetensors(std::vector<Tensor>& tensors, const std::string& text);

// GGUF with all that `model` says but its tensors; bytes of matrices have type I8.
std::string packed_gguf(std::vector<Tensor>& tensors, const std::string& text,
                        const InputFile& model);

}  // namespace prefix
