// What the files of a model say of its use: how its authors ask it and how they read it. Nothing of
// it changes what is computed; recipes are chosen by it (text/).
//
//   config.json                        architectures, model_type, _name_or_path, id2label ──┐
//   modules.json ── 1_Pooling, 1_LogitScore ── config.json                                  │
//                └─ sentence_bert_config.json, tokenizer_config.json                        │
//   config_sentence_transformers.json  prompts                                              ├─> Declared
//   prefix_recipe.json                 as it is                                             │
//   GGUF                               general.name, *.pooling_type, *.output_labels ───────┘
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/input_folder.h"
#include "base/json_fwd.h"
#include "base/json_text.h"

namespace prefix {

class GgufMetadata;

struct Declared {
  std::string format;              // "safetensors" or "GGUF"
  std::vector<std::string> names;  // of the model, from the most telling one
  std::vector<std::string> architectures;
  std::string model_type;
  // A class of a model that auto_map takes from code beside the files;
  // empty where it names none, or classes of transformers only.
  std::string custom_class;
  // "last", "mean", "first", "rank" (a head reads the last token), or the file's own word for
  // another way; empty: it does not say.
  std::string pooling;
  bool include_prompt = true;             // its pooling reads the tokens of a prompt as well
  std::vector<std::string> modules;       // classes of modules.json, "Pooling"
  std::vector<std::string> module_paths;  // the folder of each
  int32_t max_tokens = 0;                 // of a text with what stands around it; 0: not said
  bool lower_case = false;                // texts are made small letters before they are encoded
  std::vector<std::string> modalities;    // what it takes, "text", "message"; empty: not said
  std::vector<std::pair<std::string, std::string>> prompts;  // name, what stands before a text
  std::string default_prompt;                                // the name of one of them
  std::vector<std::string> labels;                           // of a classification head
  std::string problem_type;                   // what its logits are, as config.json says
  int32_t true_token = -1, false_token = -1;  // whose logits are a score
  std::string recipe;                         // prefix_recipe.json
};

// From config.json.
void declare_config(const Json& config, Declared& declared);
// From the other files beside it; all of them may be missing.
// Throws kFormat naming a file that does not hold what it should.
void declare_folder(const InputFolder& folder, Declared& declared);
void declare_recipe(const InputFolder& folder, Declared& declared);
void declare_gguf(const GgufMetadata& metadata, Declared& declared);
// The name that a path gives a model: of a directory, of a snapshot in a Hugging Face cache, of a
// GGUF file.
void declare_path(const std::string& path, Declared& declared);

void write_declared(JsonText& json, const Declared& declared);

}  // namespace prefix
