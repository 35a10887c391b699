#include "model/config/quantization_config.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr std::pair<QuantMethod, std::string_view> kMethods[] = {
    {QuantMethod::kCompressedTensors, "compressed-tensors"},
    {QuantMethod::kAwq, "awq"},
    {QuantMethod::kGptq, "gptq"},
    {QuantMethod::kFp8, "fp8"},
    {QuantMethod::kMxfp4, "mxfp4"},
};

template <typename... Parts>
[[noreturn]] void unsupported(const Parts&... parts) {
  fail(Code::kUnsupportedModel, "quantization_config: ", parts...);
}

// Some writers leave out what others write as null, false, 0, "" or an empty list or object.
bool is_nothing(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

void refuse(const Json& json, const char* key, const char* why) {
  if (json.contains(key) && !is_nothing(json.at(key)))
    unsupported('"', key, "\" is ", json_shown(json.at(key)), "; ", why);
}

// The value of the first of two names of a key.
int64_t integer(const Json& json, const char* key, const char* older, int64_t least, int64_t most) {
  return json_int(json, json_has(json, key) ? key : older, least, most);
}

std::string one_of(const Json& json, const char* key, const std::string& absent,
                   const std::vector<std::string_view>& known) {
  std::string value = json_string(json, key, absent);
  std::string supported;
  for (const std::string_view one : known) {
    if (value == one) return value;
    supported += (supported.empty() ? "\"" : ", \"") + std::string(one) + "\"";
  }
  unsupported(key, " ", quote(value), " is not supported (supported: ", supported, ")");
}

const Json& object_in(const Json& json, const std::string& key) {
  const Json& value = json.at(key);
  if (!value.is_object())
    fail(Code::kFormat, quote(key), " is ", json_shown(value), ", not an object");
  return value;
}

// Patterns ("re:...") name nothing that could be compared with what a file has.
void read_plain(const Json& json, const char* key, QuantConfig& c) {
  if (!json_has(json, key)) return;
  const Json& list = json.at(key);
  if (!list.is_array() || list.size() > QuantLimits::kModules)
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(list), ", not a list of at most ",
         QuantLimits::kModules, " names of modules");
  for (const Json& name : list) {
    if (!name.is_string())
      fail(Code::kFormat, "\"", key, "\" holds ", json_shown(name), ", not the name of a module");
    auto text = name.get<std::string>();
    if (!text.starts_with("re:")) c.plain.push_back(std::move(text));
  }
}

// A group of -1 columns is a row.
void read_group(int64_t group, QuantScheme& s) {
  s.scales = group == -1 ? QuantScheme::Scales::kRow : QuantScheme::Scales::kGroup;
  s.group = group;
  if (group == 0) fail(Code::kFormat, "group_size is 0; it must be -1 or at least 1");
}

// "128x128", as older files of compressed-tensors have it.
Json sides_of(const std::string& text) {
  Json sides = Json::array();
  std::istringstream in(text);
  for (std::string side; std::getline(in, side, 'x');) {
    const bool whole = !side.empty() && side.size() < 10 &&
                       side.find_first_not_of("0123456789") == std::string::npos;
    if (!whole) return text;
    sides.push_back(std::stoll(side));
  }
  return sides;
}

void read_block(const Json& given, const char* key, QuantScheme& s) {
  const Json sizes = given.is_string() ? sides_of(given.get<std::string>()) : given;
  if (!sizes.is_array() || sizes.size() != 2)
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(given), ", not [rows, columns]");
  s.scales = QuantScheme::Scales::kBlock;
  s.block_rows = json_int_value(sizes[0], key, 1, QuantLimits::kGroup);
  s.block_columns = json_int_value(sizes[1], key, 1, QuantLimits::kGroup);
}

// ---- compressed-tensors ------------------------------------------------------------------------

QuantScheme weights_of_group(const Json& group, bool is_mxfp4) {
  if (!json_has(group, "weights"))
    unsupported("a group without \"weights\" is not supported; weights must be quantised");
  const Json& weights = object_in(group, "weights");
  QuantScheme s;
  s.is_float = one_of(weights, "type", "int", {"int", "float"}) == "float";
  s.bits = static_cast<int>(json_int(weights, "num_bits", 1, 64, 8));
  const bool known =
      is_mxfp4 ? s.is_float && s.bits == 4 : s.bits == 8 || (s.bits == 4 && !s.is_float);
  if (!known)
    unsupported("weights of type ", s.is_float ? "float" : "int", " with num_bits ", s.bits,
                " are not supported (supported: ",
                is_mxfp4 ? "float with 4" : "int with 4 and 8, float with 8", ")");
  s.has_zeros = !json_bool(weights, "symmetric", true);
  if (json_has(weights, "dynamic") && weights.at("dynamic") != false)
    unsupported("weights are dynamic; scales of weights must be in the file");
  const bool has_group = json_has(weights, "group_size") && !is_nothing(weights.at("group_size"));
  const std::string how = one_of(weights, "strategy", has_group ? "group" : "tensor",
                                 {"tensor", "channel", "group", "block"});
  if (how == "group") {
    read_group(json_int(weights, "group_size", -1, QuantLimits::kGroup), s);
  } else if (how == "block") {
    if (!json_has(weights, "block_structure"))
      fail(Code::kFormat, "strategy is \"block\" and \"block_structure\" is missing");
    read_block(weights.at("block_structure"), "block_structure", s);
  } else {
    s.scales = how == "tensor" ? QuantScheme::Scales::kTensor : QuantScheme::Scales::kRow;
  }
  return s;
}

std::vector<std::string_view> formats() {
  return {"pack-quantized",  "int-quantized",   "float-quantized",
          "naive-quantized", "mixed-precision", "mxfp4-pack-quantized"};
}

void read_compressed_tensors(const Json& json, QuantConfig& c) {
  const std::string format = one_of(json, "format", "", formats());
  refuse(json, "transform_config", "transforms of weights are not supported");
  if (json_has(json, "sparsity_config")) {
    const Json& sparsity = object_in(json, "sparsity_config");
    if (!sparsity.empty()) one_of(sparsity, "format", "dense", {"dense"});
  }
  read_plain(json, "ignore", c);
  if (!json_has(json, "config_groups") || object_in(json, "config_groups").empty())
    fail(Code::kFormat, "\"config_groups\" is missing or empty");
  for (const auto& [name, group] : json.at("config_groups").items()) {
    const Json& one = object_in(json.at("config_groups"), name);
    const std::string own = json_has(one, "format") ? one_of(one, "format", "", formats()) : format;
    c.schemes.push_back(weights_of_group(one, own == "mxfp4-pack-quantized"));
  }
}

// ---- the others --------------------------------------------------------------------------------

void read_awq(const Json& json, QuantConfig& c) {
  std::string version = json_string(json, "version", "gemm");
  std::ranges::transform(version, version.begin(),
                         [](char ch) { return ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch; });
  if (version != "gemm")
    unsupported("version ", quote(version), " is not supported (supported: \"gemm\")");
  const int64_t bits = integer(json, "bits", "w_bit", 1, 64);
  if (bits != 4) unsupported("bits is ", bits, "; awq is supported with 4");
  if (!json_bool(json, "zero_point", true))
    unsupported("zero_point is false; awq is supported with zero points");
  QuantScheme s;
  s.bits = 4;
  s.has_zeros = true;
  read_group(integer(json, "group_size", "q_group_size", -1, QuantLimits::kGroup), s);
  c.schemes.push_back(s);
  read_plain(json, "modules_to_not_convert", c);
}

void read_gptq(const Json& json, QuantConfig& c) {
  const std::string format =
      one_of(json, "checkpoint_format", json_string(json, "format", "gptq"), {"gptq", "gptq_v2"});
  c.zeros_less_one = format == "gptq";
  refuse(json, "is_marlin_format", "weights in an order of a kernel are not supported");
  const int64_t bits = json_int(json, "bits", 1, 64);
  if (bits != 4 && bits != 8) unsupported("bits is ", bits, "; gptq is supported with 4 and 8");
  if (json_has(json, "pack_dtype")) one_of(json, "pack_dtype", "", {"int32"});
  // "-:pattern" names modules that are not quantised; others have sizes of their own.
  if (json_has(json, "dynamic") && !is_nothing(json.at("dynamic")))
    for (const auto& [pattern, how] : object_in(json, "dynamic").items())
      if (!pattern.starts_with("-:"))
        unsupported("\"dynamic\" has settings for ", quote(pattern),
                    "; only modules that are left out (\"-:\") are supported");
  QuantScheme s;
  s.bits = static_cast<int>(bits);
  s.has_zeros = true;
  read_group(json_int(json, "group_size", -1, QuantLimits::kGroup), s);
  c.schemes.push_back(s);
  read_plain(json, "modules_to_not_convert", c);
}

void read_fp8(const Json& json, QuantConfig& c) {
  const char* const kBlock = "weight_block_size";
  if (json_has(json, "fmt")) one_of(json, "fmt", "", {"e4m3", "float8_e4m3fn"});
  if (json_has(json, "scale_fmt")) one_of(json, "scale_fmt", "", {"float", "ue8m0"});
  if (json_has(json, "expert_dtype")) one_of(json, "expert_dtype", "", {"fp8"});
  if (json_has(json, kBlock)) {
    QuantScheme s;
    s.is_float = true;
    read_block(json.at(kBlock), kBlock, s);
    c.schemes.push_back(s);
  }
  read_plain(json, "modules_to_not_convert", c);
  read_plain(json, "ignored_layers", c);
}

void read_mxfp4(const Json& json, QuantConfig& c) {
  QuantScheme s;
  s.bits = 4;
  s.is_float = true;
  read_group(32, s);
  c.schemes.push_back(s);
  read_plain(json, "modules_to_not_convert", c);
}

}  // namespace

QuantConfig quant_config_from_json(const Json& config) {
  QuantConfig c;
  const char* const key =
      json_has(config, "quantization_config") ? "quantization_config" : "compression_config";
  if (!json_has(config, key)) return c;
  const Json& json = object_in(config, key);
  const std::string name =
      json_string(json, "quant_method", key[0] == 'c' ? "compressed-tensors" : "");
  std::string supported;
  for (const auto& [method, known] : kMethods) {
    if (name == known) c.method = method;
    supported += (supported.empty() ? "\"" : ", \"") + std::string(known) + "\"";
  }
  switch (c.method) {
    case QuantMethod::kNone:
      unsupported(name.empty() ? "quant_method is missing"
                               : cat("quant_method ", quote(name), " is not supported"),
                  " (supported: ", supported, ", and GGUF files)");
    case QuantMethod::kCompressedTensors:
      read_compressed_tensors(json, c);
      break;
    case QuantMethod::kAwq:
      read_awq(json, c);
      break;
    case QuantMethod::kGptq:
      read_gptq(json, c);
      break;
    case QuantMethod::kFp8:
      read_fp8(json, c);
      break;
    case QuantMethod::kMxfp4:
      read_mxfp4(json, c);
      break;
  }
  return c;
}

std::string_view quant_method_name(QuantMethod method) {
  for (const auto& [known, name] : kMethods)
    if (known == method) return name;
  return "";
}

}  // namespace prefix
