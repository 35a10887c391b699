#include "model/files/quantised_tensors.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "model/files/quantised_weight.h"

namespace prefix {
namespace {

// Names of parts. Those of `dropped` belong to activations. Nothing here has a destructor: a
// process may end while a model is loaded.
using Names = std::span<const std::string_view>;

struct Layout {
  Names parts;
  Names dropped;
  std::string_view suffix;  // of the weight: stem + suffix
};

constexpr std::string_view kActivations[] = {
    ".input_scale",      ".input_zero_point", ".output_scale", ".output_zero_point",
    ".activation_scale", ".q_scale",          ".k_scale",      ".v_scale",
    ".kv_scale",         ".k_zero_point",     ".v_zero_point"};
constexpr std::string_view kCompressed[] = {".weight_packed", ".weight_scale", ".weight_zero_point",
                                            ".weight_shape", ".weight_g_idx"};
constexpr std::string_view kAwq[] = {".qweight", ".qzeros", ".scales"};
constexpr std::string_view kGptq[] = {".qweight", ".qzeros", ".scales", ".g_idx"};
constexpr std::string_view kFp8[] = {".weight_scale_inv", ".weight_scale"};
constexpr std::string_view kMxfp4[] = {"_blocks", "_scales"};

Layout layout_of(QuantMethod method) {
  switch (method) {
    case QuantMethod::kCompressedTensors:
      return {kCompressed, kActivations, ".weight"};
    case QuantMethod::kAwq:
      return {kAwq, {}, ".weight"};
    case QuantMethod::kGptq:
      return {kGptq, {}, ".weight"};
    case QuantMethod::kFp8:
      return {kFp8, kActivations, ".weight"};
    case QuantMethod::kMxfp4:
      return {kMxfp4, {}, ""};
    case QuantMethod::kNone:
      break;
  }
  return {};
}

class Assembler {
 public:
  Assembler(const QuantConfig& config, TensorSource& source)
      : config_(config),
        source_(source),
        layout_(layout_of(config.method)),
        plain_(config.plain.begin(), config.plain.end()) {}

  void run(const std::function<bool(std::string_view)>& is_left_out) {
    for (const Tensor& t : source_.tensors()) {
      if (is_left_out && is_left_out(t.name)) {
        tensors_.push_back(t);
        continue;
      }
      if (ends_with_one(t.name, layout_.dropped)) continue;
      const std::string_view part = part_of(t);
      if (part.empty()) {
        keep(t);
        continue;
      }
      const std::string stem = t.name.substr(0, t.name.size() - part.size());
      bytes_[stem] += t.bytes;
      if (place_.try_emplace(stem, tensors_.size()).second) tensors_.push_back(weight(stem));
    }
    for (const auto& [stem, at] : place_) tensors_[at].bytes = bytes_.at(stem);
    source_.replace(std::move(tensors_));
  }

 private:
  static bool ends_with_one(std::string_view name, Names ends) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
  }

  // Empty: a tensor of its own.
  std::string_view part_of(const Tensor& t) const {
    for (const std::string_view part : layout_.parts)
      if (t.name.ends_with(part)) return part;
    const bool codes =
        config_.method == QuantMethod::kCompressedTensors || config_.method == QuantMethod::kFp8;
    const std::string_view end = ".weight";
    return codes && needs_scales(t.type) && t.name.ends_with(end) ? end : "";
  }

  void keep(const Tensor& t) {
    tensors_.push_back(t);
    // AutoGPTQ writes a bias for every module.
    const std::string_view end = ".bias";
    if (config_.method == QuantMethod::kGptq && t.name.ends_with(end))
      tensors_.back().may_be_left =
          source_.find(t.name.substr(0, t.name.size() - end.size()) + ".qweight") && is_zero(t);
  }
  static bool is_zero(const Tensor& t) {
    if (t.shape.size() != 1 || needs_scales(t.type)) return false;
    std::vector<float> values(static_cast<size_t>(t.shape[0]));
    read_row(t, 0, values.data());
    return std::ranges::all_of(values, [](float v) { return v == 0; });
  }

  // The module itself, or one around it.
  void refuse_plain(const std::string& stem) const {
    for (size_t end = stem.size(); end != std::string::npos && end > 0;
         end = stem.rfind('.', end - 1)) {
      const std::string module = stem.substr(0, end);
      if (plain_.count(module))
        fail(Code::kFormat, "quantization_config says that module ", quote(module),
             " is not quantised; the file has parts of ",
             quote(stem + std::string(layout_.suffix)));
    }
  }

  Tensor weight(const std::string& stem) {
    refuse_plain(stem);
    QuantisedWeight made = quantised_weight(config_, WeightParts(stem, source_));
    Tensor t;
    t.name = stem + std::string(layout_.suffix);
    t.type = TensorType::kF32;
    t.file = made.parts.codes.tensor.file;
    t.shape = std::move(made.shape);
    element_count(t.name, t.shape);
    t.computed = std::make_shared<QuantisedMatrix>(std::move(made.parts), strips_);
    return t;
  }

  const QuantConfig& config_;
  TensorSource& source_;
  const Layout layout_;
  const std::set<std::string> plain_;
  const std::shared_ptr<Strips> strips_ = std::make_shared<Strips>();
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> place_;  // of the weight with a stem, in tensors_
  std::map<std::string, size_t> bytes_;  // of its parts
};

}  // namespace

void assemble_quantised(const QuantConfig& config, TensorSource& source,
                        const std::function<bool(std::string_view)>& is_left_out) {
  Assembler(config, source).run(is_left_out);
}

}  // namespace prefix
