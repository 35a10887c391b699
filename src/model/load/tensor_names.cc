#include "model/load/tensor_names.h"

namespace prefix {
namespace {

constexpr std::string_view kBody = "model.";

struct Prefixes {
  std::string_view body, head;
};
// The first is what a file is taken for that has none of them.
constexpr Prefixes kKnown[] = {
    {kBody, ""},
    {"", ""},
    {"backbone.", ""},
    {"model.language_model.", ""},
    {"language_model.model.", "language_model."},
    {"language_model.", ""},
};

std::string replaced(std::string_view name, const Prefixes& prefixes) {
  if (!name.starts_with(kBody)) return std::string(prefixes.head) + std::string(name);
  return std::string(prefixes.body) + std::string(name.substr(kBody.size()));
}

Prefixes prefixes_of(const TensorSource& tensors, std::string_view embedding) {
  for (const Prefixes& one : kKnown)
    if (tensors.find(replaced(embedding, one))) return one;
  return kKnown[0];
}

}  // namespace

FileNames::FileNames(const TensorSource& tensors, const Architecture& architecture, bool gguf)
    : patterns_(gguf ? architecture.gguf : architecture.hugging_face) {
  const Prefixes found = gguf ? kKnown[0] : prefixes_of(tensors, patterns_.embedding);
  body_ = found.body;
  head_ = found.head;
}

std::string FileNames::operator()(std::string_view pattern, int32_t layer) const {
  return for_layer(replaced(pattern, {body_, head_}), layer);
}

std::string for_layer(std::string_view pattern, int32_t layer) {
  std::string name(pattern);
  const size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

}  // namespace prefix
