//   transformers v4                               transformers v5
//   rope_theta, rope_scaling {type|rope_type}     rope_parameters {rope_type, rope_theta}
//
// Several engines broke on the change; both spellings are read. rope_scaling and rope_parameters
// must not contradict each other; what stands inside them goes before a rope_theta or a
// partial_rotary_factor beside them, as in transformers v5 (convert_rope_params_to_dict).
#include "model/config/config_json_rope.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"

namespace prefix {
namespace {

// Rope parameters are at most this far from 1 in either direction.
constexpr double kMaxFactor = 1e9;

// An empty object where the file has nothing under this key.
const Json& object_of(const Json& json, const char* key) {
  static const Json& kNone = *new Json(Json::object());
  if (!json_has(json, key)) return kNone;
  if (!json.at(key).is_object())
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(json.at(key)), ", not an object");
  return json.at(key);
}

// One object, or that of either spelling: a key is taken from the one that has it.
class RopeParameters {
 public:
  explicit RopeParameters(const Json& only) : RopeParameters(only, only) {}
  RopeParameters(const Json& older, const Json& newer) : older_(older), newer_(newer) {}

  bool has(const char* key) const { return json_has(holder(key), key); }
  const Json& holder(const char* key) const { return json_has(newer_, key) ? newer_ : older_; }
  const Json& older() const { return older_; }
  const Json& newer() const { return newer_; }

 private:
  const Json& older_;
  const Json& newer_;
};

double positive(const RopeParameters& rope, const char* key) {
  const double value = json_float(rope.holder(key), key);
  if (!(value > 0 && value <= kMaxFactor))
    fail(Code::kFormat, "rope parameter \"", key, "\" is ", value, ", outside (0, ", kMaxFactor,
         "]");
  return value;
}

std::vector<double> factors(const RopeParameters& rope, const char* key) {
  if (!rope.has(key)) fail(Code::kFormat, "rope parameter \"", key, "\" is missing");
  const Json& value = rope.holder(key).at(key);
  if (!value.is_array() || value.size() > static_cast<size_t>(ConfigLimits::kHeadDim))
    fail(Code::kFormat, "rope parameter \"", key, "\" is ", json_shown(value),
         ", not a list of at most ", ConfigLimits::kHeadDim, " numbers");
  std::vector<double> list;
  for (const Json& v : value) {
    if (!v.is_number() || !(v.get<double>() > 0 && v.get<double>() <= kMaxFactor))
      fail(Code::kFormat, "rope parameter \"", key, "\" holds ", json_shown(v), ", outside (0, ",
           kMaxFactor, "]");
    list.push_back(v.get<double>());
  }
  return list;
}

// Empty where an object does not say it.
std::string stated_type(const Json& rope, const ConfigTraits& traits) {
  const std::string type = json_string(rope, "rope_type", "");
  const std::string older = json_string(rope, "type", "");
  if (!type.empty() && !older.empty() && type != older)
    fail(Code::kFormat, "rope type is both ", quote(type), " and ", quote(older));
  const std::string either = !type.empty() ? type : older;
  return traits.su_is_longrope && (either == "su" || either == "yarn") ? "longrope" : either;
}

// Tools that write one spelling leave the other as it was, with another set of keys.
RopeParameters agreeing(const Json& older, const Json& newer, const ConfigTraits& traits) {
  const auto compare = [](const char* key, const Json& a, const Json& b) {
    if (a != b)
      fail(Code::kFormat, "\"rope_scaling\" and \"rope_parameters\" differ: ", key, " is ",
           json_shown(a), " in one and ", json_shown(b), " in the other; one of them must go");
  };
  const std::string before = stated_type(older, traits), now = stated_type(newer, traits);
  if (!before.empty() && !now.empty()) compare("rope_type", before, now);
  for (const auto& [key, value] : older.items())
    if (key != "type" && key != "rope_type" && !value.is_null() && json_has(newer, key.c_str()))
      compare(key.c_str(), value, newer.at(key));
  return {older, newer};
}

// What the file says of all layers, or ConfigTraits::yarn.
RopeParameters rope_parameters(const Json& json, const ConfigTraits& traits) {
  static const Json& kYarn = *new Json({{"rope_type", "yarn"},
                                        {"factor", 32},
                                        {"original_max_position_embeddings", 4096},
                                        {"truncate", false}});
  if (traits.yarn && !json_has(json, "rope_scaling") && !json_has(json, "rope_parameters"))
    return RopeParameters(kYarn);
  return agreeing(object_of(json, "rope_scaling"), object_of(json, "rope_parameters"), traits);
}

void refuse_layer_types(const RopeParameters& rope) {
  for (const Json* object : {&rope.older(), &rope.newer()})
    for (const auto& [key, value] : object->items())
      if (value.is_object())
        fail(Code::kUnsupportedModel, "rope parameters per layer type (", quote(key),
             ") are not supported for this architecture");
}

std::string rope_type(const RopeParameters& rope, const ConfigTraits& traits) {
  const std::string newer = stated_type(rope.newer(), traits);
  const std::string type = newer.empty() ? stated_type(rope.older(), traits) : newer;
  // An empty object is how v5 writes "nothing special"; one that scales must say how.
  if (type.empty() && rope.has("factor"))
    fail(Code::kFormat, "the rope parameters have a factor and no rope_type");
  return type.empty() ? "default" : type;
}

int32_t original_positions(const Json& json, const RopeParameters& rope) {
  const char* key = "original_max_position_embeddings";
  const Json& holder = json_has(json, key) ? json : rope.holder(key);  // Phi-3 has it outside
  return static_cast<int32_t>(json_int(holder, key, 1, ConfigLimits::kPositions));
}

void read_longrope(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  c.rope.short_factor = factors(rope, "short_factor");
  c.rope.long_factor = factors(rope, "long_factor");
  c.rope.original_max_positions = original_positions(json, rope);
  const double longer = static_cast<double>(c.max_positions) / c.rope.original_max_positions;
  const double factor = rope.has("factor") ? positive(rope, "factor") : longer;
  c.rope.attention_factor = rope.has("attention_factor")
                                ? positive(rope, "attention_factor")
                                : longrope_attention_factor(factor, c.rope.original_max_positions);
}

void read_yarn(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  const auto number = [&](const char* key, double absent) {
    return rope.has(key) ? positive(rope, key) : absent;
  };
  const bool stated = rope.has("original_max_position_embeddings") ||
                      json_has(json, "original_max_position_embeddings");
  c.rope.original_max_positions = stated ? original_positions(json, rope) : c.max_positions;
  c.rope.factor =
      number("factor", static_cast<double>(c.max_positions) / c.rope.original_max_positions);
  c.rope.beta_fast = number("beta_fast", 32);
  c.rope.beta_slow = number("beta_slow", 1);
  if (!(c.rope.beta_fast > c.rope.beta_slow))
    fail(Code::kFormat, "beta_fast (", c.rope.beta_fast, ") must be above beta_slow (",
         c.rope.beta_slow, ")");
  c.rope.truncate = json_bool(rope.holder("truncate"), "truncate", true);
  double factor = yarn_attention_factor(c.rope.factor);
  // 0 is none, as in transformers: files of DeepSeek's kind have "mscale_all_dim": 0.
  const auto has_number = [&](const char* key) {
    return rope.has(key) && json_float(rope.holder(key), key) != 0;
  };
  if (has_number("mscale") && has_number("mscale_all_dim"))
    factor = yarn_attention_factor(c.rope.factor, positive(rope, "mscale")) /
             yarn_attention_factor(c.rope.factor, positive(rope, "mscale_all_dim"));
  c.rope.attention_factor = number("attention_factor", factor);
}

void read_llama3(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  c.rope.factor = positive(rope, "factor");
  c.rope.low_freq_factor = positive(rope, "low_freq_factor");
  c.rope.high_freq_factor = positive(rope, "high_freq_factor");
  c.rope.original_max_positions = original_positions(json, rope);
  if (!(c.rope.high_freq_factor > c.rope.low_freq_factor))
    fail(Code::kFormat, "high_freq_factor (", c.rope.high_freq_factor,
         ") must be above low_freq_factor (", c.rope.low_freq_factor, ")");
}

// Into c.rope. What `rope` leaves out may stand beside it; what it has counts.
void read_rope(const Json& json, const RopeParameters& rope, const char* theta_key, double theta,
               const ConfigTraits& traits, ModelConfig& c) {
  refuse_layer_types(rope);
  const auto either = [&](const char* key, double absent) {
    return json_float(rope.holder(key), key, json_float(json, key, absent));
  };
  c.rope.theta =
      json_float(rope.holder("rope_theta"), "rope_theta", json_float(json, theta_key, theta));
  if (traits.lfm2_keys) c.rope.theta = json_float(json, "theta", c.rope.theta);
  c.rope.partial_rotary_factor = either("partial_rotary_factor", traits.partial_rotary_factor);
  const std::string type = rope_type(rope, traits);
  if (type == "default") {
    c.rope.type = RopeType::kDefault;
  } else if (type == "linear") {
    c.rope.type = RopeType::kLinear;
    c.rope.factor = positive(rope, "factor");
  } else if (type == "dynamic") {
    c.rope.type = RopeType::kDynamic;
    c.rope.factor = positive(rope, "factor");
  } else if (type == "yarn") {
    c.rope.type = RopeType::kYarn;
    read_yarn(json, rope, c);
  } else if (type == "llama3") {
    c.rope.type = RopeType::kLlama3;
    read_llama3(json, rope, c);
  } else if (type == "longrope") {
    c.rope.type = RopeType::kLongrope;
    read_longrope(json, rope, c);
  } else {
    fail(Code::kUnsupportedModel, "rope type ", quote(type),
         " is not supported (supported: default, linear, dynamic, yarn, llama3, longrope)");
  }
}

// Model cards tell their readers to add yarn to the file, and nothing else: then the context is
// what it stretches the original one to. A shorter one than the original is a model that was cut.
void lengthen_context(ModelConfig& c) {
  if (c.rope.type != RopeType::kYarn || c.rope.original_max_positions > c.max_positions) return;
  const double stretched = c.rope.factor * c.rope.original_max_positions;
  if (stretched > static_cast<double>(ConfigLimits::kPositions))
    fail(Code::kFormat, "yarn by ", c.rope.factor, " from ", c.rope.original_max_positions,
         " positions gives ", stretched, "; at most ", ConfigLimits::kPositions, " are allowed");
  c.max_positions = std::max(c.max_positions, static_cast<int32_t>(stretched));
}

// Layers with a window have a table of their own. v5 says so by type of layer; v4 has the
// parameters of the others and, of these, the base alone.
void read_two_ropes(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  constexpr const char* kBase = "rope_local_base_freq";
  const Json& newer = object_of(json, "rope_parameters");
  const Json& windowed = object_of(newer, "sliding_attention");
  const Json& full = object_of(newer, "full_attention");
  const bool by_type = windowed.size() + full.size() > 0;
  if (!by_type && !newer.empty())
    fail(Code::kFormat, "\"rope_parameters\" is ", json_shown(newer),
         "; this architecture has them by type of layer, \"full_attention\" and ",
         "\"sliding_attention\"");
  const bool local = traits.window.rope_theta > 0;
  read_rope(json, RopeParameters(windowed), local ? kBase : "rope_theta",
            local ? traits.window.rope_theta : traits.rope_theta, traits, c);
  c.window_rope = c.rope;
  c.rope = {};
  read_rope(json, agreeing(object_of(json, "rope_scaling"), full, traits), "rope_theta",
            traits.rope_theta, traits, c);
  if (c.windows.empty()) c.window_rope.reset();
}

// Written for all types of layers that the architecture knows, whether the model has them or not.
bool has_ropes_by_type(const Json& json) {
  if (!json_has(json, "rope_parameters") || !json.at("rope_parameters").is_object()) return false;
  const Json& rope = json.at("rope_parameters");
  return json_has(rope, "full_attention") || json_has(rope, "sliding_attention");
}

bool is_rotated(const Json& json) {
  const std::string type = json_string(json, "position_embedding_type", "nope");
  if (type != "rope" && type != "nope")
    fail(Code::kUnsupportedModel, "position_embedding_type ", quote(type),
         " is not supported (supported: \"rope\", \"nope\")");
  return type == "rope";
}

}  // namespace

void read_rotation(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  c.rotates = traits.rotates && (!traits.named_positions || is_rotated(json));
  if (!c.rotates) return;
  if (traits.window.own_rope && (!c.windows.empty() || has_ropes_by_type(json)))
    read_two_ropes(json, traits, c);
  else
    read_rope(json, rope_parameters(json, traits), "rope_theta", traits.rope_theta, traits, c);
  lengthen_context(c);
}

void read_unrotated(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  constexpr const char* kList = "no_rope_layers";
  const auto layers = static_cast<size_t>(c.layers);
  if (json_has(json, kList)) {
    const Json& list = json.at(kList);
    if (!list.is_array() || list.size() < layers)
      fail(Code::kFormat, "\"", kList, "\" is ", json_shown(list), ", not a list of ", c.layers,
           " numbers");
    for (size_t i = 0; i < layers; ++i)
      c.unrotated.push_back(json_int_value(list[i], kList, 0, 1) == 0);
    return;
  }
  const auto every = static_cast<size_t>(json_int(
      json, "no_rope_layer_interval", 1, ConfigLimits::kLayers, traits.unrotated_interval));
  for (size_t i = 0; i < layers; ++i) c.unrotated.push_back((i + 1) % every == 0);
}

}  // namespace prefix
