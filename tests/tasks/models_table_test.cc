// docs/models.json: recipe auto is the one that the table has for each published model, from a
// directory of its name with what lies beside its weights, and from a GGUF file of it. The weights
// are those of the tiny model.
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "published.h"

namespace prefix_tasks {
namespace {

const Json& table() {
  static const Json all = Json::parse(file_text(PREFIX_DOCS "/models.json"));
  return all;
}

// The name of the directory that people have it in.
std::string short_name(const Json& model) {
  const auto name = model.at("name").get<std::string>();
  return name.substr(name.find('/') + 1);
}
Json layout_of(const Json& model) { return model.value("layout", Json::object()); }
bool has_files(const Json& model, const char* kind) {
  const auto files = model.at("files").get<std::set<std::string>>();
  return files.count(kind) > 0;
}

// That of the golden case of a recipe, which has the tokens that the recipe needs.
Tokenizer tokenizer_for(const std::string& recipe) {
  for (const char* kind : {"rerank", "embed", "bidirectional_embed"})
    for (const Json& c : golden_recipes().at(kind))
      if (c.at("recipe") == recipe) return tokenizer_of(c);
  if (recipe == "jina-reranker-v3")
    return tokenizer_of(golden_recipes().at("listwise").at("cases")[0]);
  return words_tokenizer();
}

StoredTensors head_of(const Json& layout) {
  if (layout.contains("projector"))
    return {{"projector.0.weight", f32_tensor({8, kHidden}, std::vector<float>(8 * kHidden, 0.5f))},
            {"projector.2.weight", f32_tensor({4, 8}, std::vector<float>(32, 0.5f))}};
  if (!layout.contains("head")) return {};
  const auto rows = layout["head"][1].get<uint64_t>();
  return {{layout["head"][0].get<std::string>() + ".weight",
           f32_tensor({rows, kHidden}, std::vector<float>(rows * kHidden, 0.5f))}};
}

std::string published_directory(const TempFolder& folder, const Json& model) {
  const Json layout = layout_of(model);
  Json changes = Json::object();
  if (model["config"].contains("architectures"))
    changes["architectures"] = model["config"]["architectures"];
  // Tokens that see those behind them.
  const Json& config = model["config"];
  if (!config.value("is_causal", true) || config.value("use_bidirectional_attention", false) ||
      config.value("model_type", "") == "llama_bidirec")
    changes["is_causal"] = false;
  auto files = words_files(changes, head_of(layout));
  if (layout.contains("modules")) {
    Json modules = Json::array();
    for (const auto& [i, kind] : layout["modules"].items())
      modules.push_back({{"path", kind == "Transformer" ? "" : i + "_" + kind.get<std::string>()},
                         {"type", "sentence_transformers.models." + kind.get<std::string>()}});
    files["modules.json"] = modules.dump();
  }
  if (layout.contains("pooling"))
    files["1_Pooling/config.json"] = Json{
        {"word_embedding_dimension", kHidden},
        {"pooling_mode_" + layout["pooling"].get<std::string>(),
         true}}.dump();
  if (layout.contains("prompts"))
    files["config_sentence_transformers.json"] =
        Json{{"prompts", layout["prompts"]}, {"default_prompt_name", nullptr}}.dump();
  return directory(folder, short_name(model), files);
}

std::string published_gguf(const TempFolder& folder, const Json& model) {
  const Json layout = layout_of(model);
  std::vector<std::vector<float>> head;
  if (layout.contains("head"))
    head.assign(layout["head"][1].get<size_t>(), std::vector<float>(kHidden, 0.5f));
  GgufWriter w = words_gguf(head);
  if (layout.contains("name")) w.string("general.name", layout["name"].get<std::string>());
  if (layout.contains("pooling")) w.integer("qwen3.pooling_type", 3);  // the last token
  if (layout.contains("labels"))
    gguf_texts(w, "qwen3.classifier.output_labels", layout["labels"].get<Strings>());
  return folder.write(short_name(model) + "-Q8_0.gguf", w.bytes());
}

void expect_recipe(const std::string& path, const std::string& kind, const std::string& recipe,
                   const std::string& reason) {
  SCOPED_TRACE(path);
  const Engine engine = engine_at(path);
  const Json told = task_info(task_of(engine, tokenizer_for(recipe), kind.c_str()));
  EXPECT_EQ(told.at("recipe"), recipe) << told;
  EXPECT_NE(told.at("reason").get<std::string>().find(reason), std::string::npos) << told;
}

TEST(ModelsTable, EachModelCallsForItsRecipe) {
  const TempFolder folder;
  size_t tried = 0;
  for (const Json& model : table().at("models")) {
    if (!model.contains("recipe")) continue;
    const std::string use = model.at("use"), recipe = model.at("recipe");
    if (has_files(model, "safetensors"))
      expect_recipe(published_directory(folder, model), use, recipe, "the model's files have");
    if (has_files(model, "GGUF"))
      expect_recipe(published_gguf(folder, model), use, recipe, "the model's files have");
    ++tried;
  }
  EXPECT_GE(tried, 19u);
}

TEST(ModelsTable, TheOthersHaveTheDefaults) {
  const TempFolder folder;
  const std::map<std::string, std::string> defaults = {{"rerank", "query-likelihood"},
                                                       {"embed", "last-token"},
                                                       {"answer", "question-answering"},
                                                       {"chat", "conversation"}};
  for (const Json& model : table().at("models")) {
    EXPECT_EQ(model.contains("recipe"), model.at("use") != "chat") << model.at("name");
    if (model.contains("recipe")) continue;
    const Engine engine = engine_at(published_directory(folder, model));
    const Tokenizer tokenizer = words_tokenizer();
    for (const auto& [kind, recipe] : defaults)
      EXPECT_EQ(task_info(task_of(engine, tokenizer, kind.c_str())).at("recipe"), recipe)
          << model.at("name");
  }
}

}  // namespace
}  // namespace prefix_tasks
