#include "model/config/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "base/status.h"
#include "model/files/json_file.h"

namespace prefix {
namespace {

constexpr JsonLimits kLimits{.bytes = 4 << 20, .values = 1 << 16};
constexpr size_t kMaxPatterns = 4096;
constexpr size_t kMaxStates = 1 << 16;  // of all expressions of a key
constexpr double kMaxAlpha = 1e6;

// Keys that say nothing about what is computed, or only how it was trained, or only together with
// one of kSwitches.
constexpr std::string_view kInert[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_class",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "parent_library",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "task_type",
    "use_rslora",
};
// Keys that must be off, and what they would make of an adapter.
constexpr std::pair<std::string_view, std::string_view> kSwitches[] = {
    {"alora_invocation_tokens", "an adapter that begins in the middle of a prompt"},
    {"arrow_config", "a choice between adapters"},
    {"layer_replication", "a model with more layers"},
    {"loftq_config", "other weights of the model itself"},
    {"lora_bias", "biases"},
    {"megatron_config", "another library's layers"},
    {"modules_to_save", "whole matrices in place of the model's"},
    {"target_parameters", "parameters that are no matrix of a linear layer"},
    {"trainable_token_indices", "other rows of the embedding"},
    {"use_bdlora", "block-diagonal matrices"},
    {"use_dora", "DoRA, which scales the columns of the sum"},
    {"use_qalora", "QA-LoRA"},
};
// Of init_lora_weights: those that leave the model's own weights alone.
constexpr std::string_view kPlainInits[] = {"gaussian", "eva", "mica", "orthogonal"};

// Off, as Python's truth has it.
bool is_off(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_array() || value.is_object()) return value.empty();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_number() && value.get<double>() == 0;
}

void refuse_what_is_not_run(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kInert, key) != std::end(kInert) || is_off(value)) continue;
    for (const auto& [name, meaning] : kSwitches)
      if (key == name)
        fail(Code::kUnsupportedModel, "\"", name, "\" is ", json_shown(value), ", which asks for ",
             meaning, "; adapters are plain LoRA");
    fail(Code::kUnsupportedModel, quote(key), " is ", json_shown(value),
         "; the key is not known, and may change what the adapter computes");
  }
}

void check_kind(const Json& json) {
  const std::string type = json_string(json, "peft_type", "");
  if (type != "LORA")
    fail(Code::kUnsupportedModel, "\"peft_type\" is ", quote(type),
         "; adapters are of type \"LORA\"");
  const std::string bias = json_string(json, "bias", "none");
  if (bias != "none")
    fail(Code::kUnsupportedModel, "\"bias\" is ", quote(bias), "; adapters have \"none\"");
  constexpr const char* kInit = "init_lora_weights";
  if (!json_has(json, kInit) || json.at(kInit).is_boolean()) return;
  const std::string init = json_string(json, kInit, "");
  if (std::ranges::find(kPlainInits, init) == std::end(kPlainInits))
    fail(Code::kUnsupportedModel, "\"", kInit, "\" is ", quote(init),
         ", which changes the model's own weights; convert the adapter to plain LoRA");
}

int64_t rank_in(const Json& value, const char* key) {
  return json_int_value(value, key, 1, kMaxAdapterRank);
}

double alpha_in(const Json& value, const char* key) {
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kMaxAlpha))
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), ", not a number in [-", kMaxAlpha,
         ", ", kMaxAlpha, "]");
  return value.get<double>();
}

bool names(std::string_view pattern, std::string_view module) {
  if (!module.ends_with(pattern)) return false;
  return module.size() == pattern.size() || module[module.size() - pattern.size() - 1] == '.';
}

ModulePattern pattern_of(const std::string& text, const char* key) {
  try {
    return ModulePattern(text);
  } catch (const Error& e) {
    fail(e.code(), "\"", key, "\" has ", e.message());
  }
}

// text: of the file, for the order of the keys.
template <typename T, typename Read>
std::vector<std::pair<ModulePattern, T>> patterns(const Json& json, const std::string& text,
                                                  const char* key, const Read& read) {
  std::vector<std::pair<ModulePattern, T>> list;
  if (!json_has(json, key)) return list;
  const Json& object = json.at(key);
  if (!object.is_object() || object.size() > kMaxPatterns)
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(object), ", not an object of at most ",
         kMaxPatterns, " modules");
  size_t states = 0;
  for (const std::string& one : json_keys(text, key)) {
    list.emplace_back(pattern_of(one, key), read(object.at(one), key));
    states += list.back().first.states();
    if (states > kMaxStates)
      fail(Code::kUnsupportedModel, "\"", key, "\" has regular expressions of more than ",
           kMaxStates, " states together");
  }
  return list;
}

template <typename T>
T value_of(const std::vector<std::pair<ModulePattern, T>>& list, std::string_view module, T other) {
  const auto found =
      std::ranges::find_if(list, [&](const auto& entry) { return entry.first.fits(module); });
  return found == list.end() ? other : found->second;
}

std::vector<std::string> read_targets(const Json& json) {
  constexpr const char* kKey = "target_modules";
  if (!json_has(json, kKey) || json.at(kKey).is_string()) return {};
  const Json& list = json.at(kKey);
  if (!list.is_array() || list.empty() || list.size() > kMaxPatterns)
    fail(Code::kFormat, "\"", kKey, "\" is ", json_shown(list),
         ", neither a text nor a list of 1 to ", kMaxPatterns, " texts");
  std::vector<std::string> targets;
  for (const Json& one : list) {
    if (!one.is_string())
      fail(Code::kFormat, "\"", kKey, "\" holds ", json_shown(one), ", not a text");
    targets.push_back(one.get<std::string>());
  }
  return targets;
}

}  // namespace

int64_t AdapterConfig::rank_of(std::string_view module) const {
  return value_of(ranks, module, rank);
}

double AdapterConfig::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return value_of(alphas, module, alpha) / (root_scaled ? std::sqrt(r) : r);
}

bool AdapterConfig::is_target(std::string_view module) const {
  return targets.empty() || std::ranges::any_of(targets, [&](const std::string& target) {
           return names(target, module);
         });
}

AdapterConfig read_adapter_config(const InputFile& file) {
  AdapterConfig c;
  with_json_text(
      file,
      [&](const Json& json, const std::string& text) {
        if (!json.is_object()) fail(Code::kFormat, "it is ", json_shown(json), ", not an object");
        check_kind(json);
        refuse_what_is_not_run(json);
        c.rank = json_int(json, "r", 1, kMaxAdapterRank, 8);
        c.alpha = json_has(json, "lora_alpha") ? alpha_in(json.at("lora_alpha"), "lora_alpha") : 8;
        c.root_scaled = json_bool(json, "use_rslora", false);
        c.ranks = patterns<int64_t>(json, text, "rank_pattern", rank_in);
        c.alphas = patterns<double>(json, text, "alpha_pattern", alpha_in);
        c.targets = read_targets(json);
      },
      kLimits);
  return c;
}

}  // namespace prefix
