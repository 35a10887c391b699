// A classification head: one row of weights for each label, over what is read of a text.
// It is small and lies in host memory.
//
//   score.weight        safetensors, *ForSequenceClassification
//   classifier.weight   the same of others, with a bias
//   cls.output.weight   GGUF
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/files/tensor_file.h"

namespace prefix {

// Of a head, and of what its files call them: a number that nothing else bounds.
inline constexpr int64_t kMaxLabels = 1 << 20;

struct LabelHead {
  int32_t labels = 0;         // 0: the model has none
  std::vector<float> weight;  // [labels, hidden]
  std::vector<float> bias;    // empty: none
  double temperature = 1;     // by which logits are divided

  // One logit for each label.
  std::vector<float> logits(std::span<const float> hidden) const;
};

// The number of labels that the tensors of a model have; 0: there is no head.
int32_t label_count(const TensorSource& tensors);

// Throws kFormat naming a tensor of another shape. `used` receives the names of its tensors;
// without `read` it has no numbers.
LabelHead load_label_head(const TensorSource& tensors, int64_t hidden, bool read,
                          const std::function<void(const std::string&)>& used);

}  // namespace prefix
