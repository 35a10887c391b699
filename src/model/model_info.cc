#include "model/model_info.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/load/packed_model.h"
#include "model/load/weights.h"
#include "model/step_memory.h"

namespace prefix {
namespace {

// Tensors with the same role that are stored in the same way.
struct Group {
  std::string_view name;
  std::string_view kind;
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;
};

// GGUF gives the input of a gated delta rule the names of attention's.
bool is_recurrent(std::string_view name, const ModelConfig& config) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  const bool delta = config.recurrent.mixer == Mixer::kGatedDelta;
  return has(".mamba.") || has(".conv.") || has(".shortconv.") || has(".linear_attn.") ||
         has(".ssm_") || (delta && (has(".attn_qkv.") || has(".attn_gate.")));
}

// Nemotron-H calls whatever a layer is made of its mixer.
std::string_view group_of_mixer(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (has(".q_proj.") || has(".k_proj.") || has(".v_proj.") || has(".o_proj.")) return "attention";
  return has(".up_proj.") || has(".down_proj.") ? "mlp" : "recurrent";
}

std::string_view group_of(std::string_view name, const ModelConfig& config) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (is_left_out(name, config, find_architecture(config.architecture))) return "unused";
  if (has("norm")) return "norm";
  if (is_recurrent(name, config)) return "recurrent";
  if (has("embed") || has("embd")) return "embedding";
  if (has("attn") || has("attention")) return "attention";
  const bool moe = has(".block_sparse_moe.");
  if (has("_exps.") || has(".experts.") || (moe && has("put_linear."))) return "experts";
  if (has("mlp") || moe || has("ffn") || has(".feed_forward.")) return "mlp";
  if (has(".mixer.")) return group_of_mixer(name);
  if (name.ends_with("lm_head.weight") || name == "output.weight") return "output";
  return "other";
}

// In the order in which they occur first.
std::vector<Group> groups_of(const std::vector<Tensor>& tensors, const ModelConfig& config) {
  std::vector<Group> groups;
  for (const Tensor& t : tensors) {
    const std::string_view name = group_of(t.name, config);
    Group* group = nullptr;
    for (Group& g : groups)
      if (g.name == name && g.kind == t.kind()) group = &g;
    if (!group) group = &groups.emplace_back(Group{name, t.kind()});
    ++group->tensors;
    group->parameters += element_count(t.name, t.shape);
    group->bytes += static_cast<int64_t>(t.bytes);
  }
  return groups;
}

int64_t flops_per_token(const std::vector<Group>& groups, bool has_output,
                        const ExpertConfig& experts) {
  int64_t weights = 0;
  for (const Group& g : groups) {
    if (g.name == "norm" || g.name == "unused" || (g.name == "embedding" && has_output)) continue;
    weights +=
        g.name == "experts" ? g.parameters / experts.count * experts.per_token : g.parameters;
  }
  return 2 * weights;
}

}  // namespace

std::string model_info_json(const std::string& path) {
  const ModelFiles files = open_model(path);
  // What a load refuses of names and shapes is refused here.
  ops::NumericTypes types = ops::kBf16Types;
  if (const auto packed = PackedModel::of(*files.tensors)) types.int8 = packed->kinds();
  weight_shapes(files, find_architecture(files.config.architecture), types);
  const ModelConfig& c = files.config;
  const std::vector<Group> groups = groups_of(files.tensors->tensors(), c);
  int64_t parameters = 0, bytes = 0;
  bool has_output = false;
  for (const Group& g : groups) {
    parameters += g.parameters;
    bytes += g.bytes;
    has_output |= g.name == "output";
  }

  JsonText json;
  json.open('{').field("format", c.from_gguf ? "GGUF" : "safetensors");
  json.field("architecture", files.declared_as).field("model_type", c.architecture);
  json.key("sizes").open('{');
  json.field("layers", c.layers).field("hidden", c.hidden).field("heads", c.heads);
  json.field("kv_heads", c.kv_heads).field("head_dim", c.head_dim);
  json.field("intermediate", c.intermediate).field("vocabulary", c.vocab_size);
  json.field("max_positions", c.max_positions);
  json.field("recurrent_layers", c.recurrent_count());
  json.field("experts", c.experts.count).field("experts_per_token", c.experts.per_token);
  json.close('}');
  json.field("logits", c.missing_output.empty());
  json.key("tensors").open('[');
  for (const Group& g : groups) {
    json.open('{').field("group", g.name).field("dtype", g.kind);
    json.field("tensors", g.tensors).field("parameters", g.parameters).field("bytes", g.bytes);
    json.close('}');
  }
  json.close(']').field("parameters", parameters).field("bytes", bytes);
  json.field("state_bytes", static_cast<int64_t>(state_layout_of(c).bytes()));
  json.field("flops_per_token", flops_per_token(groups, has_output, c.experts));
  return std::move(json.close('}')).take();
}

}  // namespace prefix
