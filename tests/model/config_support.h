// What tests of configurations share: small ones to be changed,
// and what must be said of wrong ones.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/input_file.h"
#include "base/json.h"
#include "gguf_writer.h"
#include "model/config/config.h"
#include "model/files/gguf.h"
#include "support/expect_error.h"

namespace prefix::testing_support {

using Changes = std::initializer_list<std::pair<const char*, Json>>;

inline Json with(Changes changes, Json json) {
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}
inline Json without(const char* key, Json json) {
  json.erase(key);
  return json;
}

// config.json of two layers of a type.
inline Json of(const char* type, Changes changes = {}) {
  return with(changes, {{"model_type", type},
                        {"vocab_size", 1000},
                        {"hidden_size", 64},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"intermediate_size", 96},
                        {"max_position_embeddings", 512},
                        {"rms_norm_eps", 1e-5}});
}

// Heads of 16, whatever the type has.
inline Json headed(const char* type, Changes changes = {}) {
  return with(changes, of(type, {{"head_dim", 16}}));
}

inline ModelConfig config_of(const Json& json) { return config_from_json(json); }
inline ModelConfig config_of(const GgufWriter& w) {
  GgufMetadata metadata;
  TensorSource tensors;
  read_gguf(std::make_shared<InputFile>("file", w.bytes()), metadata, tensors);
  return config_from_gguf(metadata, tensors);
}

// `file`: config.json, or a GGUF file.
template <typename File>
void expect_bad(const File& file, std::initializer_list<std::string_view> parts,
                Code code = Code::kFormat) {
  expect_error(code, parts, [&] { config_of(file); });
}
template <typename File>
void expect_unsupported(const File& file, std::initializer_list<std::string_view> parts) {
  expect_bad(file, parts, Code::kUnsupportedModel);
}

}  // namespace prefix::testing_support
