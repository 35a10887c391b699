#include "model/load/weights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/elementary.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/load/expert_rows.h"
#include "model/load/matrix_packer.h"
#include "model/load/packed_model.h"
#include "model/load/tensor_names.h"
#include "model/load/tensor_rows.h"
#include "ops/same_bits.h"
#include "ops/weights.h"

namespace prefix {
namespace {

class Loader {
  using Kind = ops::MatrixKind;

 public:
  // device: null to look at the names and shapes of tensors only, as they would be packed.
  Loader(const ModelFiles& files, const Architecture& architecture, ops::Device* device,
         const ops::NumericTypes& types, const Model::Progress& progress, const LoadExtras& extras)
      : files_(files),
        config_(files.config),
        architecture_(architecture),
        specs_(resolve_layers(config_, architecture)),
        file_names_(*files.tensors, architecture, config_.from_gguf),
        names_(file_names_.patterns()),
        device_(device),
        packer_(files, device, types, extras),
        observer_(extras.observer),
        progress_(progress) {}

  // What is there when it throws belongs to the caller.
  void load(Weights& w) {
    const auto vocab = static_cast<int64_t>(config_.vocab_size);
    steps_ = config_.layers + 2;
    place_ = "embedding.";
    w.embedding = pack(Kind::kHead, name(names_.embedding), vocab, config_.hidden);
    report();
    w.tied = config_.tie_embeddings;
    place_ = "output.";
    if (w.tied)
      w.output = w.embedding;
    else if (config_.missing_output.empty())
      w.output = pack(Kind::kHead, name(names_.output), vocab, config_.hidden);
    if (w.tied) used_.insert(name(names_.output));  // some files repeat it
    report();
    std::vector<float> norm = norm_values(name(names_.output_norm), config_.hidden);
    w.output_norm = upload(norm);
    if (config_.logits_scaling != 1) {
      for (float& v : norm) v = static_cast<float>(v / config_.logits_scaling);
      w.logit_norm = upload(norm);
    }
    w.label_head = load_label_head(*files_.tensors, config_.hidden, device_ != nullptr,
                                   [this](const std::string& name) { used_.insert(name); });
    w.label_head.temperature = config_.head_temperature;
    w.dense = DenseLayers(files_.dense, device_ != nullptr);
    for (const DenseFile& dense : files_.dense)
      if (dense.tensors == files_.tensors) used_.insert(dense.weight);
    for (int32_t i = 0; i < config_.layers; ++i) {
      layer(i, w.layers.emplace_back());
      report();
    }
    packer_.check_all_loaded();
    refuse_extra();
    if (observer_) observer_->used(used_);
  }

 private:
  void layer(int32_t i, LayerWeights& w) {
    layer_ = i;
    place_ = cat("layers.", i, ".");
    const int64_t h = config_.hidden;
    const LayerSpec& spec = specs_[static_cast<size_t>(i)];
    if (spec.mixer != Mixer::kNone) {
      w.mixer_norm = norm(names_.attention_norm, h);
      w.post_mixer_norm = norm(names_.post_attention_norm, h);
      if (spec.mixer == Mixer::kAttention)
        attention(w);
      else
        recurrent(w);
    }
    if (spec.feed_forward != FeedForward::kNone) {
      w.ffn_norm = norm(names_.ffn_norm, h);
      w.post_ffn_norm = norm(names_.post_ffn_norm, h);
      if (spec.feed_forward == FeedForward::kExperts)
        experts(w);
      else
        mlp(w, spec.feed_forward == FeedForward::kGated, names_);
      if (spec.shared) mlp(w, true, shared_names());
    }
  }

  void attention(LayerWeights& w) {
    const int64_t h = config_.hidden;
    const int64_t d = config_.head_dim;
    const int64_t q = config_.heads * d;
    const int64_t kv = config_.kv_heads * d;
    const bool whole = architecture_.qk_norm == QkNorm::kWholeWidth;
    w.q_norm = norm(names_.q_norm, whole ? q : d);
    w.k_norm = norm(names_.k_norm, whole ? kv : d);
    if (!names_.sinks.empty()) w.sinks = upload(values(name(names_.sinks), config_.heads));
    if (!names_.qkv.empty()) {
      w.mixer_in = pack(Kind::kMixerIn, name(names_.qkv) + ".weight", q + 2 * kv, h);
      w.mixer_in_bias = bias(name(names_.qkv), q + 2 * kv, config_.attention_bias);
    } else if (config_.attention_gate) {
      gated_qkv(w, q, kv);
    } else {
      w.mixer_in = pack(Kind::kMixerIn, q + 2 * kv, h,
                        {part(name(names_.q) + ".weight", q, h, permuted()),
                         part(name(names_.k) + ".weight", kv, h, permuted()),
                         part(name(names_.v) + ".weight", kv, h)});
      std::vector<float> all;
      for (const auto& [pattern, n, turn] :
           {std::tuple(names_.q, q, permuted()), std::tuple(names_.k, kv, permuted()),
            std::tuple(names_.v, kv, false)}) {
        std::vector<float> one = bias_values(name(pattern), n, config_.attention_bias);
        if (turn && !one.empty()) one = unpermute(one);
        all.insert(all.end(), one.begin(), one.end());
      }
      w.mixer_in_bias = upload(all);
    }
    w.mixer_out = pack(Kind::kMixerOut, name(names_.attention_output) + ".weight", h, q);
    w.mixer_out_bias = bias(name(names_.attention_output), h, config_.attention_output_bias);
  }

  // A file has [query | gate] of each head in turn.
  void gated_qkv(LayerWeights& w, int64_t q, int64_t kv) {
    const int64_t h = config_.hidden;
    const int64_t d = config_.head_dim;
    const TensorRows::Part both = part(name(names_.q) + ".weight", 2 * q, h);
    const auto half_of_heads = [&](std::vector<TensorRows::Part>& parts, int64_t first) {
      for (int64_t head = 0; head < config_.heads; ++head)
        parts.push_back({both.tensor, 2 * head * d + first, d});
    };
    std::vector<TensorRows::Part> parts;
    half_of_heads(parts, 0);
    parts.push_back(part(name(names_.k) + ".weight", kv, h));
    parts.push_back(part(name(names_.v) + ".weight", kv, h));
    half_of_heads(parts, d);
    w.mixer_in = pack(Kind::kMixerIn, 2 * (q + kv), h, std::move(parts));

    const std::vector<float> of_both = bias_values(name(names_.q), 2 * q, config_.attention_bias);
    std::vector<float> all, gates;
    for (size_t i = 0; i < of_both.size(); ++i)
      (static_cast<int64_t>(i) % (2 * d) < d ? all : gates).push_back(of_both[i]);
    for (const std::string_view pattern : {names_.k, names_.v}) {
      const std::vector<float> one = bias_values(name(pattern), kv, config_.attention_bias);
      all.insert(all.end(), one.begin(), one.end());
    }
    all.insert(all.end(), gates.begin(), gates.end());
    w.mixer_in_bias = upload(all);
  }

  void recurrent(LayerWeights& w) {
    const int64_t h = config_.hidden;
    const RecurrentConfig& r = config_.recurrent;
    if (!names_.in.empty())
      w.mixer_in = pack(Kind::kMixerIn, name(names_.in) + ".weight", r.projection(), h);
    else
      w.mixer_in = pack(Kind::kMixerIn, r.projection(), h, delta_projection());
    w.conv = upload(conv_values());
    w.conv_bias = bias(name(names_.conv), r.conv_channels(), r.conv_bias);
    if (!names_.in.empty())
      w.mixer_in_bias = bias(name(names_.in), r.projection(), r.projection_bias);
    w.mixer_out_bias = bias(name(names_.recurrent_output), h, r.projection_bias);
    if (r.mixer != Mixer::kShortConv) scan(w);
    w.mixer_out =
        turned() ? pack_turned(Kind::kMixerOut, name(names_.recurrent_output) + ".weight", h)
                 : pack(Kind::kMixerOut, name(names_.recurrent_output) + ".weight", h, r.inner());
  }

  void scan(LayerWeights& w) {
    const RecurrentConfig& r = config_.recurrent;
    w.dt_bias = upload(head_values(name(names_.dt_bias)));
    std::vector<float> a = head_values(name(names_.a));
    if (!config_.from_gguf)  // which holds -exp(A_log)
      for (float& v : a)
        v = -(ops::same_bits(packer_.types()) ? static_cast<float>(portable_exp(v)) : std::exp(v));
    w.a = upload(a);
    if (!names_.d.empty()) w.d = upload(head_values(name(names_.d)));
    const bool of_head = r.mixer == Mixer::kGatedDelta;
    w.gated_norm = upload(flat_values(name(names_.gated_norm), of_head ? r.head_dim : r.inner()));
  }

  // [q, k, v | z | b | a], of which all but q and k belong to value heads.
  std::vector<TensorRows::Part> delta_projection() {
    const int64_t h = config_.hidden;
    const RecurrentConfig& r = config_.recurrent;
    std::vector<TensorRows::Part> parts;
    const auto add = [&](std::string_view pattern, int64_t before, int64_t each) {
      const TensorRows::Part all = part(name(pattern) + ".weight", before + r.heads * each, h);
      if (before > 0) parts.push_back({all.tensor, 0, before});
      if (!turned()) parts.push_back({all.tensor, before, r.heads * each});
      for (int64_t head = 0; turned() && head < r.heads; ++head)
        parts.push_back({all.tensor, before + stored_head(head) * each, each});
    };
    add(names_.in_qkv, 2 * r.group_values(), r.head_dim);
    add(names_.in_z, 0, r.head_dim);
    add(names_.in_b, 0, 1);
    add(names_.in_a, 0, 1);
    return parts;
  }

  std::vector<float> conv_values() {
    const RecurrentConfig& r = config_.recurrent;
    const int64_t width = r.conv_width;
    std::vector<float> values =
        flat_values(name(names_.conv) + ".weight", r.conv_channels(), width);
    if (!turned() || values.empty()) return values;
    const std::vector<float> file = values;
    const int64_t before = 2 * r.group_values() * width, each = r.head_dim * width;
    for (int64_t head = 0; head < r.heads; ++head)
      std::copy_n(file.begin() + before + stored_head(head) * each, each,
                  values.begin() + before + head * each);
    return values;
  }

  // One number of each head.
  std::vector<float> head_values(const std::string& name) {
    const RecurrentConfig& r = config_.recurrent;
    std::vector<float> values = flat_values(name, r.heads);
    if (!turned() || values.empty()) return values;
    const std::vector<float> file = values;
    for (int64_t head = 0; head < r.heads; ++head)
      values[static_cast<size_t>(head)] = file[static_cast<size_t>(stored_head(head))];
    return values;
  }

  // Value heads lie in the order of TurnedColumns, where they are not key heads as well.
  bool turned() const {
    const RecurrentConfig& r = config_.recurrent;
    return config_.from_gguf && r.mixer == Mixer::kGatedDelta && r.heads != r.groups;
  }
  int64_t stored_head(int64_t head) const {
    return TurnedColumns::stored(head, config_.recurrent.groups, config_.recurrent.heads);
  }

  // Names in which a block beside experts is a block.
  TensorNames shared_names() const {
    TensorNames names = names_;
    if (names.shared_gate.empty()) return names;
    names.gate = names.shared_gate;
    names.up = names.shared_up;
    names.down = names.shared_down;
    return names;
  }

  void mlp(LayerWeights& w, bool gated, const TensorNames& names) {
    const int64_t h = config_.hidden;
    const int64_t inner = config_.intermediate;
    if (!gated) {
      w.gate_up = pack(Kind::kGateUp, name(names.up) + ".weight", inner, h);
      w.up_bias = bias(name(names.up), inner, config_.mlp_bias);
    } else if (!names.gate_up.empty()) {
      TensorRows::Part gate = part(name(names.gate_up) + ".weight", 2 * inner, h);
      gate.count = inner;
      TensorRows::Part up = gate;
      up.first = inner;
      w.gate_up = pack_gated(Kind::kGateUp, inner, h, gate, up);
    } else {
      w.gate_up = pack_gated(Kind::kGateUp, inner, h, part(name(names.gate) + ".weight", inner, h),
                             part(name(names.up) + ".weight", inner, h));
      w.gate_bias = bias(name(names.gate), inner, config_.mlp_bias);
      w.up_bias = bias(name(names.up), inner, config_.mlp_bias);
    }
    w.down = pack(Kind::kDown, name(names.down) + ".weight", h, inner);
    w.down_bias = bias(name(names.down), h, config_.mlp_bias);
  }

  void experts(LayerWeights& w) {
    const ExpertConfig& e = config_.experts;
    // Not in int8: a near tie would choose another expert.
    w.router = packer_.never_int8(
        e.count, config_.hidden,
        TensorRows({part(name(names_.router) + ".weight", e.count, config_.hidden)}));
    if (e.biased) expert_biases(w);
    for (int32_t i = 0; i < e.count; ++i) {
      place_ = cat("layers.", layer_, ".experts.", i, ".");
      ops::ExpertWeights& expert = w.experts.emplace_back();
      const auto bias = [&](const ops::DeviceVector& all, int64_t n) {
        return all.empty() ? nullptr : all.data() + i * n;
      };
      expert.gate_bias = bias(w.expert_gate_bias, e.intermediate);
      expert.up_bias = bias(w.expert_up_bias, e.intermediate);
      expert.down_bias = bias(w.expert_down_bias, config_.hidden);
      if (!names_.expert_turns.empty()) {
        stacked_expert(i, expert);
        continue;
      }
      const auto [gate, up] = gate_and_up(i);
      expert.gate_up = pack_gated(Kind::kGateUp, e.intermediate, config_.hidden, gate, up);
      expert.down = pack(Kind::kDown, config_.hidden, e.intermediate,
                         {expert_part(names_.expert_down, i, config_.hidden, e.intermediate)});
    }
    place_ = cat("layers.", layer_, ".");
  }

  void expert_biases(LayerWeights& w) {
    const ExpertConfig& e = config_.experts;
    w.router_bias = bias(name(names_.router), e.count, true);
    const auto of_all = [&](const std::string& name, int64_t n) {
      const Tensor& t = tensor(name, {e.count, n});
      std::vector<float> out(device_ ? static_cast<size_t>(e.count * n) : 0);
      for (int64_t i = 0; device_ && i < e.count; ++i) read_row(t, i, out.data() + i * n);
      return out;
    };
    if (names_.expert_turns.empty()) {
      w.expert_gate_bias = upload(of_all(name(names_.expert_gate) + ".bias", e.intermediate));
      w.expert_up_bias = upload(of_all(name(names_.expert_up) + ".bias", e.intermediate));
      w.expert_down_bias = upload(of_all(name(names_.expert_down) + ".bias", config_.hidden));
      return;
    }
    const std::vector<float> both =
        of_all(name(names_.expert_turns) + "_bias", 2 * int64_t{e.intermediate});
    std::vector<float> gate, up;
    for (size_t i = 0; i < both.size(); ++i) (i % 2 == 0 ? gate : up).push_back(both[i]);
    w.expert_gate_bias = upload(gate);
    w.expert_up_bias = upload(up);
    w.expert_down_bias = upload(of_all(name(names_.expert_down) + "_bias", config_.hidden));
  }

  // Of tensors of all experts that have gate and up in one.
  void stacked_expert(int32_t i, ops::ExpertWeights& expert) {
    const int64_t h = config_.hidden, inner = config_.experts.intermediate;
    expert.gate_up = pack_gated(Kind::kGateUp, inner, h,
                                stacked_rows(names_.expert_turns, i, 2 * inner, h, 0, 2),
                                stacked_rows(names_.expert_turns, i, 2 * inner, h, 1, 2));
    expert.down = pack(Kind::kDown, h, inner, stacked_rows(names_.expert_down, i, h, inner, 0, 1));
  }

  // Which rows of the [n, k] of an expert, in such a tensor.
  ExpertRows stacked_rows(std::string_view pattern, int32_t expert, int64_t n, int64_t k,
                          int64_t first, int64_t step) {
    const std::string whole = name(pattern);
    const Tensor* t = files_.tensors->find(whole);
    const int64_t count = config_.experts.count;
    const std::vector<int64_t> rows = {count, n, k}, columns = {count, k, n};
    const bool packed = t && PackedModel::has(*t);  // of either shape, and not read
    const bool transposed = t && (packed ? t->shape == columns : !t->computed);
    return {tensor(whole, transposed ? columns : rows), expert, first, step,
            transposed && !packed ? strips_ : nullptr};
  }

  // Of an expert, in tensors of their own or in one, gate above up.
  std::pair<TensorRows::Part, TensorRows::Part> gate_and_up(int32_t expert) {
    const int64_t h = config_.hidden, inner = config_.experts.intermediate;
    if (names_.expert_gate_up.empty())
      return {expert_part(names_.expert_gate, expert, inner, h),
              expert_part(names_.expert_up, expert, inner, h)};
    TensorRows::Part gate = expert_part(names_.expert_gate_up, expert, 2 * inner, h);
    gate.count = inner;
    TensorRows::Part up = gate;
    up.first += inner;
    return {gate, up};
  }

  // The matrix of an expert, in a tensor of its own or of all.
  TensorRows::Part expert_part(std::string_view pattern, int32_t expert, int64_t n, int64_t k) {
    constexpr std::string_view kNumber = "{e}";
    std::string own = name(pattern) + ".weight";
    const size_t at = own.find(kNumber);
    if (at == own.npos) return {&tensor(own, {config_.experts.count, n, k}), expert * n, n};
    own.replace(at, kNumber.size(), std::to_string(expert));
    return part(own, n, k);
  }

  // The name in this file, of this layer.
  std::string name(std::string_view pattern) const { return file_names_(pattern, layer_); }

  // A GGUF file is a whole model; of the others the names of tensors tell the file.
  std::string file() const {
    if (!config_.from_gguf) return "";
    for (const Tensor& tensor : files_.tensors->tensors())
      if (tensor.file) return tensor.file->name() + ": ";  // those of packed matrices have none
    return "";
  }

  const Tensor& tensor(const std::string& name, const std::vector<int64_t>& shape) {
    const Tensor* t = files_.tensors->find(name);
    if (!t) fail(Code::kFormat, file(), "tensor ", quote(name), " is missing");
    if (t->shape != shape)
      fail(Code::kFormat, file(), "tensor ", quote(name), " has shape ", shape_text(t->shape),
           "; the configuration asks for ", shape_text(shape));
    require_numbers(*t);
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
  // The weights of an RMS norm. Those of the gated norm of a recurrent layer never lack the 1.
  std::vector<float> norm_values(const std::string& name, int64_t n) {
    std::vector<float> out = values(name, n);
    if (architecture_.norms_plus_one && !config_.from_gguf)
      for (float& v : out) v += 1;
    return out;
  }
  ops::DeviceVector norm(std::string_view pattern, int64_t n) {
    return pattern.empty() ? ops::DeviceVector() : upload(norm_values(name(pattern), n));
  }

  // [n, k] numbers that files shape in ways of their own: [n, 1, k], [n, 1], [1, n], [groups, n /
  // groups].
  std::vector<float> flat_values(const std::string& name, int64_t n, int64_t k = 1) {
    const Tensor* t = files_.tensors->find(name);
    if (!t) fail(Code::kFormat, file(), "tensor ", quote(name), " is missing");
    std::vector<int64_t> shape;
    for (const int64_t size : t->shape)
      if (size != 1) shape.push_back(size);
    std::vector<std::vector<int64_t>> known = {{n, k}};
    if (k == 1) known.push_back({config_.recurrent.groups, n / config_.recurrent.groups});
    for (std::vector<int64_t>& one : known) std::erase(one, 1);
    if (std::ranges::find(known, shape) == known.end())
      fail(Code::kFormat, file(), "tensor ", quote(name), " has shape ", shape_text(t->shape),
           "; the configuration asks for ",
           shape_text(k == 1 ? std::vector{n} : std::vector{n, k}));
    require_numbers(*t);
    used_.insert(name);
    std::vector<float> out(device_ ? static_cast<size_t>(n * k) : 0);
    const int64_t row = t->row_values();
    for (int64_t at = 0; at < static_cast<int64_t>(out.size()); at += row)
      read_row(*t, at / row, out.data() + at);
    return out;
  }

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

  ops::PackedWeights pack(Kind kind, const std::string& name, int64_t n, int64_t k) {
    return pack(kind, n, k, {part(name, n, k)});
  }
  ops::PackedWeights pack(Kind kind, int64_t n, int64_t k, std::vector<TensorRows::Part> parts) {
    return pack(kind, n, k, TensorRows(std::move(parts)));
  }
  ops::PackedWeights pack(Kind kind, int64_t n, int64_t k, const TensorMatrix& rows) {
    return packer_.plain(kind, place_, n, k, rows);
  }
  ops::PackedWeights pack_turned(Kind kind, const std::string& name, int64_t n) {
    const RecurrentConfig& r = config_.recurrent;
    const Tensor& t = tensor(name, {n, r.inner()});
    return pack(kind, n, r.inner(), TurnedColumns(t, r.groups, r.heads, r.head_dim));
  }
  ops::PackedWeights pack_gated(Kind kind, int64_t n, int64_t k, const TensorRows::Part& gate,
                                const TensorRows::Part& up) {
    return pack_gated(kind, n, k, TensorRows({gate}), TensorRows({up}));
  }
  ops::PackedWeights pack_gated(Kind kind, int64_t n, int64_t k, const TensorMatrix& gate,
                                const TensorMatrix& up) {
    return packer_.gated(kind, place_, n, k, gate, up);
  }

  void refuse_extra() const {
    for (const Tensor& tensor : files_.tensors->tensors()) {
      const std::string& name = tensor.name;
      // Constants that some exporters write out and that follow from the configuration.
      const bool derived = name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
                           name.starts_with("rope_factors_");
      if (!derived && !tensor.may_be_left && !used_.count(name) &&
          !is_left_out(name, config_, architecture_))
        fail(Code::kFormat, file(), "tensor ", quote(name), " is not part of architecture ",
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
  const std::vector<LayerSpec> specs_;
  const FileNames file_names_;
  const TensorNames& names_;
  int32_t layer_ = -1;  // that is being loaded
  std::string place_;   // of the next matrix: MatrixPacker::plain()
  ops::Device* device_;
  MatrixPacker packer_;
  LoadObserver* observer_;
  const Model::Progress& progress_;
  const std::shared_ptr<Strips> strips_ = std::make_shared<Strips>();  // of transposed tensors
  std::set<std::string> used_;
  int64_t done_ = 0;
  int64_t steps_ = 1;
};

}  // namespace

// Of vision-language models, of which only the language model is loaded.
constexpr std::string_view kVisionParts[] = {
    "visual.",
    "model.visual.",
    "vision_tower.",
    "model.vision_tower.",
    "multi_modal_projector.",
    "model.multi_modal_projector.",
};

bool is_left_out(std::string_view name, const ModelConfig& config,
                 const Architecture& architecture) {
  if (config.from_gguf) {
    for (int32_t i = 0; i < config.draft_layers; ++i)
      if (name.starts_with(for_layer("blk.{}.", config.layers + i))) return true;
    return false;
  }
  const auto begins = [&](std::string_view start) {
    return !start.empty() && name.starts_with(start);
  };
  if (architecture.config.text_config && std::ranges::any_of(kVisionParts, begins)) return true;
  return std::ranges::any_of(architecture.left_out, begins);
}

Weights load_weights(const ModelFiles& files, const Architecture& architecture, ops::Device& device,
                     const Model::Progress& progress, const LoadExtras& extras) {
  Weights weights;
  try {
    Loader(files, architecture, &device, device.types(), progress, extras).load(weights);
  } catch (...) {
    release_weights(weights, device);
    throw;
  }
  return weights;
}

void release_weights(const Weights& weights, ops::Device& device) {
  const auto release = [&](const ops::PackedWeights& m) {
    if (m.data) device.release(const_cast<std::byte*>(m.data), m.bytes());
  };
  for (const LayerWeights& layer : weights.layers) visit_matrices(layer, release);
  release(weights.embedding);
  if (!weights.tied) release(weights.output);
}

Weights weight_shapes(const ModelFiles& files, const Architecture& architecture,
                      const ops::NumericTypes& types, LoadObserver* observer) {
  Weights weights;
  Loader(files, architecture, nullptr, types, nullptr, {observer}).load(weights);
  return weights;
}

int64_t packed_bytes(const Weights& weights) {
  auto bytes = static_cast<size_t>(weights.dense.bytes());
  visit_all_matrices(weights, [&](const ops::PackedWeights& matrix) { bytes += matrix.bytes(); });
  return static_cast<int64_t>(bytes);
}

}  // namespace prefix
