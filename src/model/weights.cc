#include "model/weights.h"

#include <set>
#include <string>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "ops/weights.h"

namespace prefix {
namespace {

std::string for_layer(std::string_view pattern, int32_t layer) {
  std::string name(pattern);
  const size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

// Rows of one or more tensors, one below the other.
class TensorRows final : public ops::WeightSource {
 public:
  struct Part {
    const Tensor* tensor = nullptr;
    int64_t first = 0;  // of the tensor's rows
    int64_t count = 0;
    // Row r of the matrix is stored as permuted_row(r, head_dim); 0: as row r.
    int64_t permuted_head_dim = 0;
  };
  explicit TensorRows(std::vector<Part> parts) : parts_(std::move(parts)) {}

  ops::TensorType type(int64_t row) const override { return part_of(row).tensor->type; }
  void read(int64_t row, std::byte* out) const override {
    const Part& part = part_of(row);  // which makes `row` one of its rows
    if (part.permuted_head_dim > 0) row = permuted_row(row, part.permuted_head_dim);
    read_blocks(*part.tensor, part.first + row, out);
  }
  // GGUF stores the query and key rows of "llama" with the two halves of a head interleaved.
  static int64_t permuted_row(int64_t row, int64_t head_dim) {
    const int64_t i = row % head_dim;
    return row - i + 2 * (i % (head_dim / 2)) + i / (head_dim / 2);
  }

 private:
  const Part& part_of(int64_t& row) const {
    for (const Part& part : parts_) {
      if (row < part.count) return part;
      row -= part.count;
    }
    fail(Code::kInternal, "a matrix has no row ", row, " beyond its last");
  }

  std::vector<Part> parts_;
};

class Loader {
 public:
  // device: null to look at the names and shapes of tensors only, as they would be packed.
  Loader(const ModelFiles& files, const Architecture& architecture, ops::Device* device,
         ops::WeightFormat format, const Model::Progress& progress)
      : files_(files),
        config_(files.config),
        architecture_(architecture),
        names_(config_.from_gguf ? architecture.gguf : architecture.hugging_face),
        device_(device),
        format_(format),
        progress_(progress) {}

  Weights load() {
    Weights w;
    const auto vocab = static_cast<int64_t>(config_.vocab_size);
    steps_ = config_.layers + 2;
    w.embedding = pack(std::string(names_.embedding), vocab, config_.hidden);
    report();
    w.tied = config_.tie_embeddings;
    w.output = w.tied ? w.embedding : pack(std::string(names_.output), vocab, config_.hidden);
    if (w.tied) used_.insert(std::string(names_.output));  // some files repeat it
    report();
    w.output_norm = vector(std::string(names_.output_norm), config_.hidden);
    for (int32_t i = 0; i < config_.layers; ++i) {
      w.layers.push_back(layer(i));
      report();
    }
    refuse_extra();
    return w;
  }

 private:
  LayerWeights layer(int32_t i) {
    const int64_t h = config_.hidden;
    const int64_t d = config_.head_dim;
    const int64_t q = config_.heads * d;
    const int64_t kv = config_.kv_heads * d;
    const int64_t inner = config_.intermediate;
    LayerWeights w;
    const auto norm = [&](std::string_view pattern, int64_t n) {
      return pattern.empty() ? ops::DeviceVector() : vector(for_layer(pattern, i), n);
    };
    w.attention_norm = norm(names_.attention_norm, h);
    w.post_attention_norm = norm(names_.post_attention_norm, h);
    w.ffn_norm = norm(names_.ffn_norm, h);
    w.post_ffn_norm = norm(names_.post_ffn_norm, h);
    const bool whole = architecture_.qk_norm == QkNorm::kWholeWidth;
    w.q_norm = norm(names_.q_norm, whole ? q : d);
    w.k_norm = norm(names_.k_norm, whole ? kv : d);

    if (!names_.qkv.empty()) {
      w.qkv = pack(for_layer(names_.qkv, i) + ".weight", q + 2 * kv, h);
      w.qkv_bias = bias(for_layer(names_.qkv, i), q + 2 * kv, config_.attention_bias);
    } else {
      w.qkv = pack(q + 2 * kv, h,
                   {part(for_layer(names_.q, i) + ".weight", q, h, permuted()),
                    part(for_layer(names_.k, i) + ".weight", kv, h, permuted()),
                    part(for_layer(names_.v, i) + ".weight", kv, h)});
      std::vector<float> all;
      for (const auto& [name, n, turn] :
           {std::tuple(names_.q, q, permuted()), std::tuple(names_.k, kv, permuted()),
            std::tuple(names_.v, kv, false)}) {
        std::vector<float> one = bias_values(for_layer(name, i), n, config_.attention_bias);
        if (turn && !one.empty()) one = unpermute(one);
        all.insert(all.end(), one.begin(), one.end());
      }
      w.qkv_bias = upload(all);
    }
    w.attention_output = pack(for_layer(names_.attention_output, i) + ".weight", h, q);
    w.attention_output_bias =
        bias(for_layer(names_.attention_output, i), h, config_.attention_output_bias);

    if (!names_.gate_up.empty()) {
      TensorRows::Part gate = part(for_layer(names_.gate_up, i) + ".weight", 2 * inner, h);
      gate.count = inner;
      TensorRows::Part up = gate;
      up.first = inner;
      w.gate_up = pack_gated(inner, h, gate, up);
    } else {
      w.gate_up = pack_gated(inner, h, part(for_layer(names_.gate, i) + ".weight", inner, h),
                             part(for_layer(names_.up, i) + ".weight", inner, h));
      w.gate_bias = bias(for_layer(names_.gate, i), inner, config_.mlp_bias);
      w.up_bias = bias(for_layer(names_.up, i), inner, config_.mlp_bias);
    }
    w.down = pack(for_layer(names_.down, i) + ".weight", h, inner);
    w.down_bias = bias(for_layer(names_.down, i), h, config_.mlp_bias);
    return w;
  }

  const Tensor& tensor(const std::string& name, const std::vector<int64_t>& shape) {
    const Tensor* t = files_.tensors->find(name);
    if (!t) fail(Code::kFormat, "tensor ", quote(name), " is missing");
    if (t->shape != shape)
      fail(Code::kFormat, "tensor ", quote(name), " has shape ", shape_text(t->shape),
           "; the configuration asks for ", shape_text(shape));
    used_.insert(name);
    return *t;
  }

  std::vector<float> values(const std::string& name, int64_t n) {
    const Tensor& t = tensor(name, {n});
    std::vector<float> out(device_ ? static_cast<size_t>(n) : 0);
    if (device_) read_row(t, 0, out.data());
    return out;
  }
  ops::DeviceVector upload(const std::vector<float>& v) {
    return device_ ? ops::DeviceVector(*device_, v) : ops::DeviceVector();
  }
  ops::DeviceVector vector(const std::string& name, int64_t n) { return upload(values(name, n)); }

  std::vector<float> bias_values(const std::string& stem, int64_t n, bool expected) {
    const std::string name = stem + ".bias";
    if (!expected && !(config_.from_gguf && files_.tensors->find(name))) return {};
    return values(name, n);
  }
  ops::DeviceVector bias(const std::string& stem, int64_t n, bool expected) {
    return upload(bias_values(stem, n, expected));
  }

  bool permuted() const { return config_.qk_permuted; }
  std::vector<float> unpermute(const std::vector<float>& v) const {
    std::vector<float> out(v.size());
    for (size_t i = 0; i < v.size(); ++i)
      out[i] = v[static_cast<size_t>(
          TensorRows::permuted_row(static_cast<int64_t>(i), config_.head_dim))];
    return out;
  }

  // All of a tensor.
  TensorRows::Part part(const std::string& name, int64_t n, int64_t k, bool turn = false) {
    return {&tensor(name, {n, k}), 0, n, turn ? config_.head_dim : 0};
  }

  ops::PackedWeights pack(const std::string& name, int64_t n, int64_t k) {
    return pack(n, k, {part(name, n, k)});
  }
  ops::PackedWeights pack(int64_t n, int64_t k, std::vector<TensorRows::Part> parts) {
    if (!device_) return ops::PackedWeights::of_shape(format_, n, k);
    return device_->pack(n, k, TensorRows(std::move(parts)));
  }
  ops::PackedWeights pack_gated(int64_t n, int64_t k, const TensorRows::Part& gate,
                                const TensorRows::Part& up) {
    if (!device_) return ops::PackedWeights::of_gated_shape(format_, n, k);
    return device_->pack_gated(n, k, TensorRows({gate}), TensorRows({up}));
  }

  void refuse_extra() const {
    for (const std::string& name : files_.tensors->names()) {
      // Constants that some exporters write out and that follow from the configuration.
      const bool derived = name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
                           name.starts_with("rope_factors_");
      if (!derived && !used_.count(name))
        fail(Code::kFormat, "tensor ", quote(name), " is not part of architecture ",
             quote(config_.architecture), " with this configuration");
    }
  }

  void report() {
    ++done_;
    if (progress_ && !progress_(static_cast<double>(done_) / static_cast<double>(steps_)))
      fail(Code::kCancelled, "the load was ended before all weights were there");
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const TensorNames& names_;
  ops::Device* device_;
  ops::WeightFormat format_;
  const Model::Progress& progress_;
  std::set<std::string> used_;
  int64_t done_ = 0;
  int64_t steps_ = 1;
};

}  // namespace

Weights load_weights(const ModelFiles& files, const Architecture& architecture, ops::Device& device,
                     const Model::Progress& progress) {
  return Loader(files, architecture, &device, device.types().weights, progress).load();
}

Weights weight_shapes(const ModelFiles& files, const Architecture& architecture,
                      ops::WeightFormat format) {
  return Loader(files, architecture, nullptr, format, nullptr).load();
}

int64_t packed_bytes(const Weights& weights) {
  size_t bytes = weights.embedding.bytes() + (weights.tied ? 0 : weights.output.bytes());
  for (const LayerWeights& w : weights.layers)
    bytes += w.qkv.bytes() + w.attention_output.bytes() + w.gate_up.bytes() + w.down.bytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace prefix
