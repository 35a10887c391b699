#include "model/config/declared.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "base/quote.h"
#include "base/status.h"
#include "model/files/gguf_metadata.h"
#include "model/files/json_file.h"
#include "model/label_head.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxModules = 64;
constexpr int64_t kMaxToken = INT32_MAX;

void add_name(const std::string& name, Declared& declared) {
  if (!name.empty() && std::ranges::find(declared.names, name) == declared.names.end())
    declared.names.push_back(name);
}

// Of "Qwen/Qwen3-Embedding-0.6B", "sentence_transformers.models.Pooling".
std::string last_part(const std::string& text, char separator) {
  const size_t end = text.find_last_not_of(separator);
  if (end == std::string::npos) return "";
  const size_t begin = text.find_last_of(separator, end);
  const size_t from = begin == std::string::npos ? 0 : begin + 1;
  return text.substr(from, end + 1 - from);
}

// "gptoss" of "gpt_oss" and of "GptOss".
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

// By the way in which transformers names the classes of a model type: Qwen3VLTextModel,
// GptOssForCausalLM.
bool is_of_transformers(const std::string& name, const std::string& model_type) {
  constexpr std::string_view kText = "text";
  constexpr std::string_view kEnds[] = {"model",
                                        "pretrainedmodel",
                                        "forcausallm",
                                        "forconditionalgeneration",
                                        "forquestionanswering",
                                        "forsequenceclassification",
                                        "fortokenclassification"};
  const std::string letters = letters_of(name), type = letters_of(model_type);
  std::string_view rest = letters, begin = type;
  if (begin.ends_with(kText)) begin.remove_suffix(kText.size());
  if (!rest.starts_with(begin)) return false;
  rest.remove_prefix(begin.size());
  if (rest.starts_with(kText)) rest.remove_prefix(kText.size());
  return std::ranges::find(kEnds, rest) != std::end(kEnds);
}

// Of auto_map, {"AutoConfig": "module.Class", "AutoModel": "module.Class", ...}. Files repeat
// classes of transformers there from the time before it had them.
std::string custom_class_of(const Json& config, const std::string& model_type) {
  const auto map = config.find("auto_map");
  if (map == config.end() || !map->is_object()) return "";
  for (const auto& [key, value] : map->items()) {
    if (!key.starts_with("AutoModel") || !value.is_string()) continue;
    const std::string name = last_part(value.get<std::string>(), '.');
    if (!is_of_transformers(name, model_type)) return name;
  }
  return "";
}

void require_object(const Json& json) {
  if (!json.is_object()) fail(Code::kFormat, "it is ", json_shown(json), ", not an object");
}

// Whole and not negative; else a number that no label can have.
int64_t label_number(const std::string& text) {
  const bool whole = !text.empty() && text.size() <= 9 &&
                     std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return whole ? std::stoll(text) : kMaxLabels;
}

// {"0": "no", "1": "yes"}: in the order of the numbers. Those that have no name are called as
// transformers calls them.
std::vector<std::string> numbered(const Json& labels, const char* key) {
  if (!labels.is_object())
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(labels), ", not an object");
  std::vector<std::string> list;
  for (const auto& [text, label] : labels.items()) {
    const int64_t number = label_number(text);
    if (number >= kMaxLabels)
      fail(Code::kFormat, "\"", key, "\" has a label for ", quote(text),
           "; labels have the numbers 0 to ", kMaxLabels - 1);
    if (label.is_null()) continue;
    if (!label.is_string() && !label.is_number())
      fail(Code::kFormat, "\"", key, "\" has ", json_shown(label), " for ", quote(text),
           ", not a text or a number");
    while (std::ssize(list) <= number) list.push_back(cat("LABEL_", list.size()));
    list[static_cast<size_t>(number)] = label.is_string() ? label.get<std::string>() : label.dump();
  }
  return list;
}

// One name for what Sentence Transformers says:
// a name or a list of names, or a flag for each way, each once; "mean" when it says nothing.
std::string pooling_of(const Json& json) {
  static const std::map<std::string, std::string>& kNames =
      *new std::map<std::string, std::string>{{"cls", "first"},
                                              {"cls_token", "first"},
                                              {"mean", "mean"},
                                              {"mean_tokens", "mean"},
                                              {"lasttoken", "last"}};
  constexpr std::string_view kFlag = "pooling_mode_";
  std::vector<std::string> ways;
  bool says = false;
  const auto add = [&](const std::string& way) {
    const auto known = kNames.find(way);
    const std::string& name = known == kNames.end() ? way : known->second;
    if (std::ranges::find(ways, name) == ways.end()) ways.push_back(name);
  };
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    if (key == "pooling_mode") {
      says = true;
      for (const Json& one : value.is_array() ? value : Json::array({value})) {
        if (!one.is_string())
          fail(Code::kFormat, "\"pooling_mode\" is ", json_shown(value),
               ", neither a text nor a list of texts");
        add(one.get<std::string>());
      }
    } else if (key.starts_with(kFlag)) {
      says = true;
      if (value.is_boolean() && value.get<bool>()) add(key.substr(kFlag.size()));
    }
  }
  if (!says) return "mean";
  std::string text;
  for (const std::string& way : ways) text += (text.empty() ? "" : "+") + way;
  return text;
}

// Python calls no bound int(1e30).
int32_t max_tokens_of(const Json& json, const char* key) {
  if (!json_has(json, key)) return 0;
  const Json& value = json.at(key);
  if (value.is_number() && value.get<double>() > kMaxToken) return 0;
  return static_cast<int32_t>(json_int_value(value, key, 1, kMaxToken));
}

constexpr const char* kMaxTokens = "max_seq_length";

// What Sentence Transformers does to a text before the model has it.
void declare_texts(const Json& json, Declared& declared) {
  require_object(json);
  declared.max_tokens = max_tokens_of(json, kMaxTokens);
  declared.lower_case = json_bool(json, "do_lower_case", false);
  constexpr const char* kTakes = "modality_config";
  if (!json_has(json, kTakes)) return;
  const Json& takes = json.at(kTakes);
  if (!takes.is_object() || takes.size() > kMaxModules)
    fail(Code::kFormat, "\"", kTakes, "\" is ", json_shown(takes), ", not an object of at most ",
         kMaxModules, " kinds");
  for (const auto& [kind, how] : takes.items()) declared.modalities.push_back(kind);
}

// Sentence Transformers writes no max_seq_length from 5.4 on: where it is not said, the tokenizer's
// length counts, within the context of the model.
void declare_transformer(const InputFolder& folder, const std::string& place, Declared& declared) {
  const std::string own = place + "sentence_bert_config.json";
  const std::string tokenizer = place + "tokenizer_config.json";
  bool says_length = false;
  if (folder.has(own))
    with_json(
        *folder.open(own),
        [&](const Json& json) {
          declare_texts(json, declared);
          says_length = json_has(json, kMaxTokens);
        },
        kSmallJson);
  if (says_length || !folder.has(tokenizer)) return;
  with_json(*folder.open(tokenizer), [&](const Json& json) {
    require_object(json);
    declared.max_tokens = max_tokens_of(json, "model_max_length");
  });
}

void declare_module(const InputFolder& folder, const std::string& kind, const std::string& path,
                    Declared& declared) {
  if (kind == "Transformer") {  // in the folder of the model itself, unless it says another
    if (path.empty() || plain_file_name(path))
      declare_transformer(folder, path.empty() ? "" : path + "/", declared);
    return;
  }
  const std::string file = path + "/config.json";
  if (kind != "Pooling" && kind != "LogitScore" && kind != "CausalScoreHead") return;
  if (!plain_file_name(path))
    fail(Code::kFormat, "modules.json has a module ", quote(kind), " at ", quote(path),
         ", which is not the name of a folder");
  if (!folder.has(file))
    fail(Code::kFormat, "modules.json has a module ", quote(kind), ", but there is no ", file);
  with_json(
      *folder.open(file),
      [&](const Json& json) {
        require_object(json);
        if (kind == "Pooling") {
          declared.pooling = pooling_of(json);
          declared.include_prompt = json_bool(json, "include_prompt", true);
          return;
        }
        const auto token = [&](const char* key) {
          return static_cast<int32_t>(json_int(json, key, 0, kMaxToken, -1));
        };
        declared.true_token = token("true_token_id");
        declared.false_token = token("false_token_id");
      },
      kSmallJson);
}

void declare_modules(const InputFolder& folder, const Json& json, Declared& declared) {
  if (!json.is_array() || json.size() > kMaxModules)
    fail(Code::kFormat, "it is ", json_shown(json), ", not a list of at most ", kMaxModules,
         " modules");
  for (const Json& module : json) {
    require_object(module);
    const std::string kind = last_part(json_string(module, "type", ""), '.');
    declared.modules.push_back(kind);
    declared.module_paths.push_back(json_string(module, "path", ""));
    declare_module(folder, kind, declared.module_paths.back(), declared);
  }
}

void declare_prompts(const Json& json, Declared& declared) {
  require_object(json);
  declared.default_prompt = json_string(json, "default_prompt_name", "");
  if (!json_has(json, "prompts")) return;
  const Json& prompts = json.at("prompts");
  if (!prompts.is_object())
    fail(Code::kFormat, "\"prompts\" is ", json_shown(prompts), ", not an object");
  for (const auto& [name, text] : prompts.items()) {
    if (text.is_null()) continue;
    if (!text.is_string())
      fail(Code::kFormat, "prompt ", quote(name), " is ", json_shown(text), ", not a text");
    declared.prompts.emplace_back(name, text.get<std::string>());
  }
}

// A text of a file as JSON, whatever its bytes are.
std::string shown(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_list(JsonText& json, std::string_view key, const std::vector<std::string>& list) {
  json.key(key).open('[');
  for (const std::string& text : list) json.raw(shown(text));
  json.close(']');
}

}  // namespace

void declare_config(const Json& config, Declared& declared) {
  declared.format = "safetensors";
  declared.model_type = json_string(config, "model_type", "");
  if (declared.model_type == "llama_bidirec") {
    const std::string way = json_string(config, "pooling", "avg");
    declared.pooling = way == "avg" ? "mean" : way == "cls" ? "first" : way;
  }
  add_name(last_part(json_string(config, "_name_or_path", ""), '/'), declared);
  const auto list = config.find("architectures");
  if (list != config.end() && list->is_array())
    for (const Json& name : *list)
      if (name.is_string() && declared.architectures.size() < kMaxModules)
        declared.architectures.push_back(name.get<std::string>());
  declared.custom_class = custom_class_of(config, declared.model_type);
  if (json_has(config, "id2label")) declared.labels = numbered(config.at("id2label"), "id2label");
  declared.problem_type = json_string(config, "problem_type", "");
}

void declare_folder(const InputFolder& folder, Declared& declared) {
  const auto read = [&](const char* name, const std::function<void(const Json&)>& use) {
    if (folder.has(name)) with_json(*folder.open(name), use, kSmallJson);
  };
  read("modules.json", [&](const Json& json) { declare_modules(folder, json, declared); });
  read("config_sentence_transformers.json",
       [&](const Json& json) { declare_prompts(json, declared); });
}

void declare_recipe(const InputFolder& folder, Declared& declared) {
  constexpr char kName[] = "prefix_recipe.json";
  if (!folder.has(kName)) return;
  const auto file = folder.open(kName);
  with_json(*file, require_object, kSmallJson);
  declared.recipe = read_text(*file, kSmallJson.bytes);
}

void declare_gguf(const GgufMetadata& metadata, Declared& declared) {
  declared.format = "GGUF";
  declared.model_type = metadata.text("general.architecture");
  declared.architectures = {declared.model_type};
  const auto text = [&](const char* key) { return metadata.text(key, ""); };
  add_name(text("general.name"), declared);
  const std::string base = text("general.basename"), tuned = text("general.finetune");
  add_name(base.empty() || tuned.empty() ? base : base + "-" + tuned, declared);
  add_name(text("general.base_model.0.name"), declared);
  const std::string pooling = declared.model_type + ".pooling_type";
  if (metadata.has(pooling)) {
    constexpr const char* kNames[] = {"", "mean", "first", "last", "rank"};
    declared.pooling = kNames[metadata.integer(pooling, 0, std::ssize(kNames) - 1)];
  }
  declared.labels = metadata.texts(declared.model_type + ".classifier.output_labels");
}

void declare_path(const std::string& path, Declared& declared) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) return;
  if (!whole.has_filename()) whole = whole.parent_path();
  if (whole.parent_path().filename() == "snapshots")
    whole = whole.parent_path().parent_path();  // models--Organisation--Name
  const bool gguf = whole.extension() == ".gguf";
  const std::string name = gguf ? whole.stem().string() : whole.filename().string();
  const size_t dashes = name.starts_with("models--") ? name.rfind("--") : std::string::npos;
  add_name(dashes == std::string::npos ? name : name.substr(dashes + 2), declared);
}

void write_declared(JsonText& json, const Declared& declared) {
  json.open('{').field("format", declared.format);
  write_list(json, "names", declared.names);
  write_list(json, "architectures", declared.architectures);
  json.key("model_type").raw(shown(declared.model_type));
  json.key("pooling").raw(shown(declared.pooling));
  json.field("include_prompt", declared.include_prompt);
  write_list(json, "modules", declared.modules);
  json.field("max_tokens", declared.max_tokens).field("lower_case", declared.lower_case);
  write_list(json, "modalities", declared.modalities);
  json.key("prompts").open('{');
  for (const auto& [name, text] : declared.prompts) json.raw(shown(name) + ":" + shown(text));
  json.close('}').key("default_prompt").raw(shown(declared.default_prompt));
  write_list(json, "labels", declared.labels);
  json.key("problem_type").raw(shown(declared.problem_type));
  json.field("true_token", declared.true_token).field("false_token", declared.false_token);
  json.key("recipe").raw(shown(declared.recipe)).close('}');
}

}  // namespace prefix
