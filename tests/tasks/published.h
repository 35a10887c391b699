// The tiny model that reads text in the layouts in which models are published: directories with
// what lies beside the weights, and GGUF files.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf_writer.h"
#include "support/temp_folder.h"
#include "tasks_support.h"

namespace prefix_tasks {

using prefix::testing_support::GgufWriter;
using prefix::testing_support::TempFolder;

inline constexpr size_t kHidden = 128, kVocab = 1003;

// The tensors of a safetensors file, as they are.
struct StoredTensor {
  std::string type;
  std::vector<uint64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

inline StoredTensors words_tensors() {
  const std::string file = file_text(words_model() + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  StoredTensors tensors;
  const Json header = Json::parse(file.substr(8, length));
  for (const auto& [name, t] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = t["data_offsets"][0], end = t["data_offsets"][1];
    tensors[name] = {t["dtype"], t["shape"], file.substr(8 + length + begin, end - begin)};
  }
  return tensors;
}

inline std::string safetensors(const StoredTensors& tensors) {
  Json header;
  std::string data;
  for (const auto& [name, t] : tensors) {
    header[name] = {{"dtype", t.type},
                    {"shape", t.shape},
                    {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

inline StoredTensor f32_tensor(std::vector<uint64_t> shape, const std::vector<float>& values) {
  return {"F32", std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
}

// A row of the embedding, which is the output matrix too.
inline std::vector<float> output_row(const StoredTensors& tensors, prefix_token token) {
  const std::string& bytes = tensors.at("model.embed_tokens.weight").bytes;
  std::vector<float> row(kHidden);
  for (size_t i = 0; i < kHidden; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * (static_cast<size_t>(token) * kHidden + i), 2);
    const uint32_t bits = uint32_t{half} << 16;
    std::memcpy(&row[i], &bits, 4);
  }
  return row;
}

// Files of a Hugging Face directory by their names.
inline std::map<std::string, std::string> words_files(const Json& changes = Json::object(),
                                                      const StoredTensors& more = {}) {
  Json config = Json::parse(file_text(words_model() + "/config.json"));
  config.merge_patch(changes);
  StoredTensors tensors = words_tensors();
  for (const auto& [name, tensor] : more) tensors[name] = tensor;
  return {{"config.json", config.dump()},
          {"tokenizer.json", file_text(words_model() + "/tokenizer.json")},
          {"tokenizer_config.json", file_text(words_model() + "/tokenizer_config.json")},
          {"model.safetensors", safetensors(tensors)}};
}

// The directory `name` in the folder, with these files.
inline std::string directory(const TempFolder& folder, const std::string& name,
                             const std::map<std::string, std::string>& files) {
  for (const auto& [file, text] : files) {
    const std::filesystem::path path = std::filesystem::path(folder / name) / file;
    std::filesystem::create_directories(path.parent_path());
    folder.write(name + "/" + file, text);
  }
  return folder / name;
}

// The same model as a GGUF file, without its tokenizer. `more`: rows of a classification head.
inline GgufWriter words_gguf(const std::vector<std::vector<float>>& head = {}) {
  GgufWriter w;
  w.string("general.architecture", "qwen3");
  for (const auto& [key, value] : std::map<std::string, uint32_t>{{"embedding_length", kHidden},
                                                                  {"block_count", 2},
                                                                  {"attention.head_count", 2},
                                                                  {"attention.head_count_kv", 1},
                                                                  {"attention.key_length", 64},
                                                                  {"attention.value_length", 64},
                                                                  {"feed_forward_length", 176},
                                                                  {"context_length", 1024}})
    w.integer("qwen3." + key, value);
  w.number("qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
  w.number("qwen3.rope.freq_base", 1000000.0f);
  w.integer("tokenizer.ggml.eos_token_id", 961);
  const std::vector<std::pair<std::string, std::string>> names = {
      {"model.embed_tokens.", "token_embd."},
      {"model.norm.", "output_norm."},
      {"model.layers.", "blk."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [stored, t] : words_tensors()) {
    std::string name = stored;
    for (const auto& [from, to] : names)
      if (const size_t at = name.find(from); at != std::string::npos)
        name.replace(at, from.size(), to);
    constexpr uint32_t kBf16 = 30;
    w.tensor(name, {t.shape.rbegin(), t.shape.rend()}, kBf16, t.bytes.size());
    std::memcpy(w.data.data() + w.data.size() - t.bytes.size(), t.bytes.data(), t.bytes.size());
  }
  std::vector<float> rows;
  for (const auto& row : head) rows.insert(rows.end(), row.begin(), row.end());
  if (!head.empty()) w.f32("cls.output.weight", {kHidden, head.size()}, rows);
  return w;
}

// A list of texts in GGUF.
inline void gguf_texts(GgufWriter& w, std::string_view key, const Strings& texts) {
  std::vector<std::byte> bytes;
  for (const std::string& text : texts) {
    const uint64_t length = text.size();
    for (const std::byte b : std::as_bytes(std::span(&length, 1))) bytes.push_back(b);
    for (const std::byte b : std::as_bytes(std::span(text))) bytes.push_back(b);
  }
  w.list(key, prefix::testing_support::GgufType::kString, texts.size(), bytes);
}

// tests/golden/recipes.json, and the tokenizer of a case in it:
// that of the model with the tokens that its recipe needs.
inline const Json& golden_recipes() {
  static const Json all = Json::parse(file_text(PREFIX_TEST_DATA "/golden/recipes.json"));
  return all;
}
inline Tokenizer tokenizer_of(const Json& c) {
  const Json& change = golden_recipes().at("tokenizers").at(c.at("tokenizer").get<std::string>());
  return changed_tokenizer([&](Json& whole, Json&) {
    for (const Json& token : change.at("added_tokens")) whole["added_tokens"].push_back(token);
    whole["post_processor"] = change.at("post_processor");
  });
}

inline Engine engine_at(const std::string& path, const char* attention = "auto") {
  const auto options = prefix_abi::make_options(
      {{"cache_bytes", "64M"}, {"threads", "2"}, {"dtype", "f32"}, {"attention", attention}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(path.c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

inline Json task_info(const prefix_task* task) {
  return Json::parse(prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_task_info_json(task, buf, cap, needed, e);
  }));
}

}  // namespace prefix_tasks
