#include "model/label_head.h"

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr const char* kStems[] = {"score", "classifier", "cls.output"};

// The stem of the tensors' names; null: there is no head.
const char* find_stem(const TensorSource& tensors) {
  for (const char* stem : kStems)
    if (tensors.find(std::string(stem) + ".weight")) return stem;
  return nullptr;
}

}  // namespace

std::vector<float> LabelHead::logits(std::span<const float> hidden) const {
  std::vector<float> out(static_cast<size_t>(labels));
  for (size_t label = 0; label < out.size(); ++label) {
    const float* row = weight.data() + label * hidden.size();
    double sum = bias.empty() ? 0 : double{bias[label]};
    for (size_t i = 0; i < hidden.size(); ++i) sum += double{row[i]} * double{hidden[i]};
    out[label] = static_cast<float>(sum / temperature);
  }
  return out;
}

int32_t label_count(const TensorSource& tensors) {
  const char* const stem = find_stem(tensors);
  if (!stem) return 0;
  const Tensor& weight = *tensors.find(std::string(stem) + ".weight");
  const int64_t labels = weight.shape.size() == 2 ? weight.shape[0] : 0;
  if (labels < 1 || labels > kMaxLabels)
    fail(Code::kFormat, "tensor ", quote(weight.name), " has shape ", shape_text(weight.shape),
         "; a classification head is a matrix of 1 to ", kMaxLabels, " rows");
  return static_cast<int32_t>(labels);
}

LabelHead load_label_head(const TensorSource& tensors, int64_t hidden, bool read,
                          const std::function<void(const std::string&)>& used) {
  LabelHead head;
  const char* const stem = find_stem(tensors);
  if (!stem) return head;
  head.labels = label_count(tensors);
  const auto values = [&](const std::string& name, const std::vector<int64_t>& shape) {
    const Tensor& t = *tensors.find(name);
    if (t.shape != shape)
      fail(Code::kFormat, "tensor ", quote(name), " has shape ", shape_text(t.shape),
           "; the configuration asks for ", shape_text(shape));
    require_numbers(t);
    used(name);
    std::vector<float> out;
    if (!read) return out;
    const int64_t width = shape.back(), rows = element_count(name, shape) / width;
    out.resize(static_cast<size_t>(rows * width));
    for (int64_t row = 0; row < rows; ++row) read_row(t, row, out.data() + row * width);
    return out;
  };
  head.weight = values(std::string(stem) + ".weight", {head.labels, hidden});
  const std::string bias = std::string(stem) + ".bias";
  if (tensors.find(bias)) head.bias = values(bias, {head.labels});
  return head;
}

}  // namespace prefix
