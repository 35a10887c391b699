// What the tensors of a file are called: names of the architecture, behind the prefixes that the
// file has. Files of one architecture differ in them, and nothing else tells:
//
//   names of the architecture    model.layers.{}.mlp.up_proj              lm_head.weight
//   a whole language model       model.layers.3.mlp.up_proj               lm_head.weight
//   a body without a head        layers.3.mlp.up_proj
//   Nemotron-H                   backbone.layers.3...                     lm_head.weight
//   a vision-language model      model.language_model.layers.3...         lm_head.weight
//                                language_model.model.layers.3...         language_model.lm_head.weight
//                                language_model.layers.3...               lm_head.weight
//
// The prefix is the one that the embedding has. GGUF files have no such variety.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/architecture.h"
#include "model/files/tensor_file.h"

namespace prefix {

class FileNames {
 public:
  FileNames(const TensorSource& tensors, const Architecture& architecture, bool gguf);

  // The names of the architecture in this kind of file.
  const TensorNames& patterns() const { return patterns_; }
  // The name in the file of the one that `pattern` stands for, of a layer where it has "{}".
  std::string operator()(std::string_view pattern, int32_t layer = -1) const;

 private:
  const TensorNames& patterns_;
  std::string_view body_, head_;  // what stands before "model." in its place, and before the others
};

// The pattern with the number of a layer in place of "{}".
std::string for_layer(std::string_view pattern, int32_t layer);

}  // namespace prefix
