// What the files of a model say of how it is used: labels, pooling.
#include "model/declared.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "gguf_writer.h"
#include "model/gguf.h"
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

// sentence_bert_config.json in the folder of the module.
Declared transformer(const std::string& text, const std::string& path = "") {
  const testing_support::TempFolder folder;
  if (!path.empty()) std::filesystem::create_directory(folder / path);
  folder.write("modules.json",
               Json{{{"type", "sentence_transformers.models.Transformer"}, {"path", path}}}.dump());
  folder.write((path.empty() ? "" : path + "/") + "sentence_bert_config.json", text);
  Declared declared;
  declare_folder(Directory(folder.path()), declared);
  return declared;
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

TEST(DeclaredTransformer, IsOfALibraryThatListsIt) {
  const testing_support::TempFolder folder;
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 512})");
  Declared declared;
  declare_folder(Directory(folder.path()), declared);
  EXPECT_EQ(declared.max_tokens, 0);
}

}  // namespace
}  // namespace prefix
