#include "model/config/config_json_experts.h"

#include <cstdint>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

int64_t expert_count(const Json& json, const ExpertKeys& keys) {
  const auto read = [&](const char* key, int64_t absent) {
    return json_int(json, key, 0, ConfigLimits::kExperts, absent);
  };
  const int64_t count = read(keys.count.name, keys.count.absent);
  if (keys.count_too == nullptr || !json_has(json, keys.count_too)) return count;
  const int64_t too = read(keys.count_too, count);
  if (json_has(json, keys.count.name) && too != count)
    fail(Code::kFormat, "\"", keys.count.name, "\" is ", count, " and \"", keys.count_too, "\" ",
         too, "; one of them must go");
  return too;
}

// Every decoder_sparse_step-th layer has experts, but for those of mlp_only_layers.
std::vector<uint8_t> expert_layers(const Json& json, const ModelConfig& c) {
  std::vector<uint8_t> layers(static_cast<size_t>(c.layers), 1);
  const int64_t step = json_int(json, "decoder_sparse_step", 1, INT32_MAX, 1);
  for (size_t i = 0; i < layers.size(); ++i) layers[i] = (static_cast<int64_t>(i) + 1) % step == 0;
  constexpr const char* kDense = "mlp_only_layers";
  if (!json_has(json, kDense)) return layers;
  const Json& dense = json.at(kDense);
  if (!dense.is_array() || dense.size() > static_cast<size_t>(ConfigLimits::kLayers))
    fail(Code::kFormat, "\"", kDense, "\" is ", json_shown(dense), ", not a list of at most ",
         ConfigLimits::kLayers, " layers");
  for (const Json& layer : dense)
    layers[static_cast<size_t>(json_int_value(layer, kDense, 0, c.layers - 1))] = 0;
  return layers;
}

}  // namespace

void read_experts(const Json& json, const Architecture& architecture, ModelConfig& c) {
  const ExpertKeys& keys = architecture.config.experts;
  ExpertConfig& experts = c.experts;
  experts.count = static_cast<int32_t>(expert_count(json, keys));
  const bool own_size = keys.intermediate.name != nullptr;
  if (experts.count == 0 && !own_size)
    fail(Code::kUnsupportedModel, "\"", keys.count.name, "\" is 0; architecture ",
         quote(architecture.name), " needs experts");
  if (experts.count == 0) return;
  experts.per_token = static_cast<int32_t>(
      json_int(json, keys.per_token.name, 1, experts.count, keys.per_token.absent));
  experts.intermediate =
      own_size
          ? static_cast<int32_t>(json_int(json, keys.intermediate.name, 1,
                                          ConfigLimits::kIntermediate, keys.intermediate.absent))
          : c.intermediate;
  if (experts.per_token > experts.count)
    fail(Code::kFormat, "\"", keys.per_token.name, "\" is missing, which means ", experts.per_token,
         ", more than the ", experts.count, " experts");
  experts.normalized = keys.normalized == nullptr || json_bool(json, keys.normalized, false);
  experts.biased = keys.biased;
  experts.shared = architecture.config.shared_mlp;
  experts.layers =
      own_size ? expert_layers(json, c) : std::vector<uint8_t>(static_cast<size_t>(c.layers), 1);
}

}  // namespace prefix
