// What the files of a model say of how it is used: labels, pooling.
#include "model/config/declared.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "gguf_writer.h"
#include "model/files/gguf.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::GgufType;
using testing_support::GgufWriter;

using Labels = std::vector<std::string>;

Labels labels_of(const Json& id2label) {
  Declared declared;
  declare_config({{"id2label", id2label}}, declared);
  return declared.labels;
}

// As transformers takes them: any number, in any order, with holes, and numbers as names.
TEST(DeclaredLabels, StandAtTheirNumbers) {
  EXPECT_EQ(labels_of(nullptr), Labels());
  EXPECT_EQ(labels_of(Json::object()), Labels());
  EXPECT_EQ(labels_of({{"10", "k"}, {"2", "c"}, {"0", ""}, {"1", nullptr}}),
            (Labels{"", "LABEL_1", "c", "LABEL_3", "LABEL_4", "LABEL_5", "LABEL_6", "LABEL_7",
                    "LABEL_8", "LABEL_9", "k"}));
  EXPECT_EQ(labels_of({{"0", 1}, {"1", -2}, {"2", 0.5}}), (Labels{"1", "-2", "0.5"}));
}

TEST(DeclaredLabels, MayBeMany) {
  constexpr size_t kCount = 1500;
  Json id2label = Json::object();
  std::vector<std::byte> list;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = "name " + std::to_string(i);
    id2label[std::to_string(i)] = name;
    GgufWriter::text(list, name);
  }
  const Labels labels = labels_of(id2label);
  ASSERT_EQ(labels.size(), kCount);
  EXPECT_EQ(labels.back(), "name 1499");

  GgufWriter w;
  w.string("general.architecture", "qwen3");
  w.list("qwen3.classifier.output_labels", GgufType::kString, kCount, list);
  GgufMetadata metadata;
  TensorSource tensors;
  read_gguf(std::make_shared<InputFile>("file", w.bytes()), metadata, tensors);
  Declared declared;
  declare_gguf(metadata, declared);
  EXPECT_EQ(declared.labels, labels);
}

TEST(DeclaredLabels, AreCheckedByName) {
  const auto refused = [](const Json& id2label, std::initializer_list<std::string_view> parts) {
    expect_error(Code::kFormat, parts, [&] { labels_of(id2label); });
  };
  refused({"no", "yes"}, {"\"id2label\"", "a list of 2 values", "not an object"});
  refused({{"0", true}}, {"\"id2label\"", "true", "\"0\"", "not a text or a number"});
  EXPECT_EQ(labels_of({{"1048575", "last"}}).size(), 1048576u);
  for (const char* number : {"1048576", "99999999999999999999", "-1", "x", ""})
    refused({{number, "x"}}, {"\"id2label\"", std::string("\"") + number + "\"", "0 to 1048575"});
}

std::string pooling_of(const Json& config) {
  const testing_support::TempFolder folder;
  std::filesystem::create_directory(folder / "1_Pooling");
  folder.write("modules.json",
               R"([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  folder.write("1_Pooling/config.json", config.dump());
  Declared declared;
  declare_folder(Directory(folder.path()), declared);
  return declared.pooling;
}

// As Sentence Transformers writes it, of all ages.
TEST(DeclaredPooling, IsANameOrNamesOrFlags) {
  const Json flags = {{"pooling_mode_cls_token", false}, {"pooling_mode_lasttoken", true}};
  EXPECT_EQ(pooling_of(flags), "last");
  EXPECT_EQ(pooling_of({{"pooling_mode", "cls"}}), "first");
  EXPECT_EQ(pooling_of({{"pooling_mode", {"mean"}}}), "mean");
  EXPECT_EQ(pooling_of({{"pooling_mode", {"mean", "lasttoken"}}}), "mean+last");
  EXPECT_EQ(pooling_of({{"pooling_mode", "weightedmean"}}), "weightedmean");
  EXPECT_EQ(pooling_of({{"pooling_mode", "lasttoken"}, {"pooling_mode_lasttoken", true}}), "last");
  EXPECT_EQ(pooling_of({{"word_embedding_dimension", 64}}), "mean") << "the default";
  EXPECT_EQ(pooling_of({{"pooling_mode_mean_tokens", false}}), "") << "none";
  expect_error(Code::kFormat, {"pooling_mode", "3"}, [] { pooling_of({{"pooling_mode", 3}}); });
}

// Files repeat classes of transformers from the time before it had them.
TEST(DeclaredClass, IsOneThatTransformersDoesNotHave) {
  const auto class_of = [](const char* type, const Json& map) {
    Declared declared;
    declare_config({{"model_type", type}, {"auto_map", map}}, declared);
    return declared.custom_class;
  };
  const std::pair<const char*, const char*> kKnown[] = {
      {"phi3", "modeling_phi3.Phi3ForCausalLM"},
      {"gpt_oss", "GptOssForSequenceClassification"},
      {"nemotron_h", "nvidia/name--modeling_nemotron_h.NemotronHForCausalLM"},
      {"gemma3_text", "modeling.Gemma3TextModel"},
      {"gemma3_text", "modeling.Gemma3ForCausalLM"},
      {"gemma3", "modeling.Gemma3TextForSequenceClassification"},
      {"qwen3_vl_text", "modeling.Qwen3VLTextModel"},
      {"granitemoehybrid", "modeling.GraniteMoeHybridPreTrainedModel"}};
  for (const auto& [type, name] : kKnown)
    EXPECT_EQ(class_of(type, {{"AutoModel", name}}), "") << name;
  const std::pair<const char*, const char*> kCustom[] = {{"qwen3", "Qwen3BidirectionalModel"},
                                                         {"qwen3", "Qwen3ForEmbedding"},
                                                         {"llama", "LlamaBiModel"},
                                                         {"llama", "Model"},
                                                         {"llama", "Qwen2Model"}};
  for (const auto& [type, name] : kCustom)
    EXPECT_EQ(class_of(type, {{"AutoModelForX", cat("a/b--modeling.", name)}}), name);
  EXPECT_EQ(class_of("qwen3", {{"AutoModel", "m.Qwen3Model"}, {"AutoModelForCausalLM", "m.Own"}}),
            "Own");
  for (const Json& none :
       {Json({{"AutoConfig", "m.OwnConfig"}, {"AutoTokenizer", {"m.A", nullptr}}}),
        Json({{"AutoModel", nullptr}}), Json(nullptr), Json("m.Own")})
    EXPECT_EQ(class_of("qwen3", none), "");
}

// sentence_bert_config.json and tokenizer_config.json in the folder of the module; null: not there.
Declared transformer(const char* text, const std::string& path, const char* tokenizer) {
  const testing_support::TempFolder folder;
  if (!path.empty()) std::filesystem::create_directory(folder / path);
  folder.write("modules.json",
               Json{{{"type", "sentence_transformers.models.Transformer"}, {"path", path}}}.dump());
  const std::string place = path.empty() ? "" : path + "/";
  if (text) folder.write(place + "sentence_bert_config.json", text);
  if (tokenizer) folder.write(place + "tokenizer_config.json", tokenizer);
  Declared declared;
  declare_folder(Directory(folder.path()), declared);
  return declared;
}
Declared transformer(const std::string& text, const std::string& path = "") {
  return transformer(text.c_str(), path, nullptr);
}

TEST(DeclaredTransformer, IsWhatSentenceTransformersDoesToATextFirst) {
  const Declared all = transformer(
      R"({"max_seq_length": 512, "do_lower_case": true, "transformer_task": "feature-extraction",
          "modality_config": {"text": {"method": "forward"}, "image+text": {}}})");
  EXPECT_EQ(all.max_tokens, 512);
  EXPECT_TRUE(all.lower_case);
  EXPECT_EQ(all.modalities, (std::vector<std::string>{"image+text", "text"}));
  const Declared none = transformer(R"({"max_seq_length": null})");
  EXPECT_EQ(none.max_tokens, 0);
  EXPECT_FALSE(none.lower_case);
  EXPECT_TRUE(none.modalities.empty());
  EXPECT_EQ(transformer(R"({"max_seq_length": 7})", "0_Transformer").max_tokens, 7);
  for (const char* no_bound : {"1000000000000000019884624838656", "1e30", "2147483648"})
    EXPECT_EQ(transformer(cat(R"({"max_seq_length": )", no_bound, "}")).max_tokens, 0);
  for (const char* wrong : {"0", "-1", "2.5", "\"512\""})
    expect_error(Code::kFormat, {"sentence_bert_config.json", "max_seq_length", wrong},
                 [&] { transformer(cat(R"({"max_seq_length": )", wrong, "}")); });
  expect_error(Code::kFormat, {"modality_config", "a list"},
               [] { transformer(R"({"modality_config": ["text"]})"); });
  expect_error(Code::kFormat, {"sentence_bert_config.json", "object"}, [] { transformer("[]"); });
}

// As sentence-transformers 5.4 writes it, and where it never wrote one.
TEST(DeclaredTransformer, HasTheLengthOfItsTokenizerWhereItSaysNone) {
  constexpr const char* k64 = R"({"model_max_length": 64, "added_tokens_decoder": {}})";
  constexpr const char* kNone =
      R"({"transformer_task": "feature-extraction", "do_lower_case": true})";
  const auto length = [](const char* own, const char* tokenizer, const char* path = "") {
    return transformer(own, path, tokenizer).max_tokens;
  };
  EXPECT_EQ(length(kNone, k64), 64);
  EXPECT_EQ(length(nullptr, k64), 64);
  EXPECT_EQ(length(nullptr, k64, "0_Transformer"), 64);
  EXPECT_EQ(length(R"({"max_seq_length": null})", k64), 64);
  EXPECT_TRUE(transformer(kNone, "", k64).lower_case);
  EXPECT_EQ(length(R"({"max_seq_length": 512})", k64), 512);
  EXPECT_EQ(length(R"({"max_seq_length": 1e30})", k64), 0) << "it says that there is none";
  for (const char* none : {"{}", R"({"model_max_length": null})",
                           R"({"model_max_length": 1000000000000000019884624838656})"})
    EXPECT_EQ(length(kNone, none), 0);
  for (const char* wrong : {"0", "-1", "2.5", "\"512\""}) {
    const std::string tokenizer = cat(R"({"model_max_length": )", wrong, "}");
    expect_error(Code::kFormat, {"tokenizer_config.json", "model_max_length", wrong},
                 [&] { length(nullptr, tokenizer.c_str()); });
    EXPECT_EQ(length(R"({"max_seq_length": 7})", tokenizer.c_str()), 7);
  }
}

TEST(DeclaredTransformer, IsOfALibraryThatListsIt) {
  const testing_support::TempFolder folder;
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 512})");
  folder.write("tokenizer_config.json", R"({"model_max_length": 512})");
  Declared declared;
  declare_folder(Directory(folder.path()), declared);
  EXPECT_EQ(declared.max_tokens, 0);
}

}  // namespace
}  // namespace prefix
