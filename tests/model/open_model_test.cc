#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/gguf_writer.h"
#include "model/load/weights.h"
#include "model/model_info.h"
#include "model/safetensors_writer.h"
#include "random_checkpoint.h"
#include "support/build_folder.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::entry;
using testing_support::expect_error;
using testing_support::safetensors_file;
using testing_support::TempFolder;

class OpenModel : public testing::Test {
 protected:
  void SetUp() override { tools::write_checkpoint(folder_.path(), {}); }
  void expect_bad(Code code, std::initializer_list<std::string_view> parts) {
    expect_error(code, parts, [&] { open_model(folder_.path()); });
  }
  TempFolder folder_;
};

TEST_F(OpenModel, ReadsADirectory) {
  const ModelFiles files = open_model(folder_.path());
  EXPECT_EQ(files.config.architecture, "qwen3");
  EXPECT_EQ(files.config.hidden, 64);
  const Tensor* t = files.tensors->find("model.embed_tokens.weight");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->shape, (std::vector<int64_t>{131, 64}));
}

TEST_F(OpenModel, ReadsShards) {
  std::filesystem::rename(folder_ / "model.safetensors",
                          folder_ / "model-00001-of-00001.safetensors");
  std::string map;
  {
    TensorSource source;
    const ModelFiles files = [&] {
      std::filesystem::create_symlink("model-00001-of-00001.safetensors",
                                      folder_ / "model.safetensors");
      return open_model(folder_.path());
    }();
    for (const std::string& name : files.tensors->names())
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"model-00001-of-00001.safetensors\"";
    std::filesystem::remove(folder_ / "model.safetensors");
  }
  folder_.write("model.safetensors.index.json",
                "{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}");
  EXPECT_NE(open_model(folder_.path()).tensors->find("model.norm.weight"), nullptr);
}

TEST_F(OpenModel, NamesWhatIsMissing) {
  expect_error(Code::kNotFound, {"no model at", folder_ / "absent"},
               [&] { open_model(folder_ / "absent"); });
  // What cannot be looked at is not what is missing.
  std::filesystem::create_symlink("round", folder_ / "round");
  expect_error(Code::kIo, {folder_ / "round", std::strerror(ELOOP)},
               [&] { open_model(folder_ / "round"); });
  std::filesystem::remove(folder_ / "model.safetensors");
  expect_bad(Code::kNotFound, {folder_.path(), "neither model.safetensors nor", "index.json"});
  std::filesystem::remove(folder_ / "config.json");
  expect_bad(Code::kNotFound, {folder_.path(), "without config.json"});
}

// What says how the model ends a text, or what its vectors are, is not left out in silence.
TEST_F(OpenModel, ALinkThatLeadsNowhereIsThere) {
  std::filesystem::create_symlink("absent", folder_ / "generation_config.json");
  expect_bad(Code::kNotFound, {folder_ / "generation_config.json"});
  std::filesystem::remove(folder_ / "generation_config.json");
  std::filesystem::create_symlink("absent", folder_ / "modules.json");
  expect_bad(Code::kNotFound, {folder_ / "modules.json"});
}

TEST_F(OpenModel, AFolderThatCannotBeLookedInto) {
  const std::string loop = folder_ / "loop";
  std::filesystem::create_symlink("loop", loop);
  expect_error(Code::kIo, {loop + "/config.json"}, [&] { Directory(loop).has("config.json"); });
}

TEST_F(OpenModel, NamesTheFileThatIsWrong) {
  folder_.write("config.json", std::string_view("{\"model_type\":\"llama\""));
  expect_bad(Code::kFormat, {folder_ / "config.json", "not valid JSON"});
  folder_.write("config.json", std::string_view("{\"model_type\":\"bert\"}"));
  expect_bad(Code::kUnsupportedModel, {folder_ / "config.json", "\"bert\""});
  folder_.write("config.json", std::string(17 << 20, ' '));
  expect_bad(Code::kFormat, {folder_ / "config.json", "17825792 bytes", "at most 16777216"});
}

TEST_F(OpenModel, ReadsGenerationConfig) {
  folder_.write("generation_config.json", std::string_view("{\"eos_token_id\":[5,6]}"));
  EXPECT_EQ(open_model(folder_.path()).config.eos_ids, (std::vector<int32_t>{5, 6}));
  folder_.write("generation_config.json", std::string_view("{\"eos_token_id\":\"x\"}"));
  expect_bad(Code::kFormat, {"generation_config.json", "eos_token_id"});
}

TEST_F(OpenModel, RefusesOtherFiles) {
  expect_error(Code::kFormat, {"config.json", "does not begin with GGUF"},
               [&] { open_model(folder_ / "config.json"); });
  const std::string empty = folder_.write("empty.gguf", std::string_view());
  expect_error(Code::kFormat, {empty, "GGUF"}, [&] { open_model(empty); });
  const std::string bare =
      folder_.write("bare.gguf", std::span<const std::byte>(testing_support::GgufWriter().bytes()));
  expect_error(Code::kFormat, {bare, "general.architecture"}, [&] { open_model(bare); });
  expect_error(Code::kIo, {"/dev/null"}, [] { open_model("/dev/null"); });
}

// The header of the model's file, changed, and `more` bytes behind its data.
void change_header(const TempFolder& folder, size_t more,
                   const std::function<void(Json&)>& change) {
  const std::string path = folder / "model.safetensors";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  Json header = Json::parse(bytes.substr(sizeof length, length));
  change(header);
  const std::string text = header.dump();
  const uint64_t size = text.size();
  folder.write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) +
                                        text + bytes.substr(sizeof length + length) +
                                        std::string(more, '\1'));
}
// A tensor of 8 bytes more.
void add_tensor(const TempFolder& folder, const std::string& name, const std::string& dtype,
                std::vector<int64_t> shape) {
  change_header(folder, 8, [&](Json& header) {
    size_t end = 0;
    for (const Json& tensor : header)
      end = std::max(end, tensor.at("data_offsets")[1].get<size_t>());
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {end, end + 8}}};
  });
}
// The embedding with another shape, and an output matrix that repeats it but for its last byte.
void add_output(const TempFolder& folder, const std::vector<int64_t>& shape) {
  size_t from = 0, to = 0, bytes = 0;
  const auto change = [&](Json& header) {
    Json& embedding = header["model.embed_tokens.weight"];
    for (const Json& tensor : header) to = std::max(to, tensor.at("data_offsets")[1].get<size_t>());
    from = embedding["data_offsets"][0];
    bytes = embedding["data_offsets"][1].get<size_t>() - from;
    embedding["shape"] = shape;
    header["lm_head.weight"] = embedding;
    header["lm_head.weight"]["data_offsets"] = {to, to + bytes};
  };
  change_header(folder, 2 * 131 * 64, change);
  std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string values(bytes, '\0');
  file.seekg(static_cast<std::streamoff>(sizeof length + length + from));
  file.read(values.data(), static_cast<std::streamsize>(bytes));
  values.back() ^= 1;
  file.seekp(static_cast<std::streamoff>(sizeof length + length + to));
  file.write(values.data(), static_cast<std::streamsize>(bytes));
  ASSERT_TRUE(file);
}
void load_shapes(const std::string& path) {
  const ModelFiles files = open_model(path);
  weight_shapes(files, find_architecture(files.config.architecture), ops::kBf16Types);
}

TEST_F(OpenModel, OnlyTypesOfWhatIsUsedCount) {
  const std::string frequencies = "model.layers.0.self_attn.rotary_emb.inv_freq";
  for (const auto& [dtype, values] : {std::pair("F8_E8M0", 8), {"I4", 16}, {"F64", 1}}) {
    tools::write_checkpoint(folder_.path(), {});
    add_tensor(folder_, frequencies, dtype, {values});
    EXPECT_NO_THROW(load_shapes(folder_.path())) << dtype;
    EXPECT_NE(model_info_json(folder_.path()).find(std::string("\"dtype\":\"") + dtype + "\""),
              std::string::npos);
    add_tensor(folder_, "model.layers.0.other", dtype, {values});
    expect_error(Code::kFormat, {"model.layers.0.other", "not part of architecture"},
                 [&] { load_shapes(folder_.path()); });
  }
  for (const char* dtype : {"I16", "U16"}) {
    tools::write_checkpoint(folder_.path(), {});
    change_header(folder_, 0, [&](Json& header) { header["model.norm.weight"]["dtype"] = dtype; });
    expect_error(Code::kUnsupportedModel, {"\"model.norm.weight\" has dtype", dtype, "BF16"},
                 [&] { load_shapes(folder_.path()); });
  }
}

// They are compared before anything looks whether they are matrices.
TEST_F(OpenModel, AnOutputMatrixOfAnyShapeIsCompared) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {131, 64}, {131 * 64}, {1, 131 * 64}, {131, 8, 8}, {131 * 64, 1}}) {
    SCOPED_TRACE(shape_text(shape));
    tools::write_checkpoint(folder_.path(), {});
    add_output(folder_, shape);
    EXPECT_FALSE(open_model(folder_.path()).config.tie_embeddings);
    if (shape.front() == 131 && shape.size() == 2) continue;
    expect_error(Code::kFormat, {"model.embed_tokens.weight", shape_text(shape), "[131, 64]"},
                 [&] { load_shapes(folder_.path()); });
  }
}

TEST_F(OpenModel, PartsOfWhatIsLeftOutNeedNotFit) {
  tools::CheckpointShape shape;
  shape.architecture = "gemma3_text";
  shape.windows = "sf";
  shape.window = 16;
  tools::write_checkpoint(folder_.path(), shape);
  std::ifstream file(folder_ / "config.json");
  Json config = Json::parse(file);
  config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  folder_.write("config.json", config.dump());
  add_tensor(folder_, "vision_tower.layers.0.qweight", "I32", {1, 2});
  EXPECT_NO_THROW(load_shapes(folder_.path()));
  add_tensor(folder_, "model.layers.0.other.qweight", "I32", {1, 2});
  expect_bad(Code::kFormat, {"model.layers.0.other.scales", "missing"});
}

// A real model, when the build folder has it.
TEST(OpenSmollm2, ReadsARealFile) {
  const std::string path =
      testing_support::build_folder() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is missing; tools/fetch_model gets it";
  const ModelFiles files = open_model(path);
  const ModelConfig& c = files.config;
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.layers, 30);
  EXPECT_EQ(c.hidden, 576);
  EXPECT_EQ(c.intermediate, 1536);
  EXPECT_EQ(c.heads, 9);
  EXPECT_EQ(c.kv_heads, 3);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.vocab_size, 49152);
  EXPECT_EQ(c.max_positions, 8192);
  EXPECT_EQ(c.rope.theta, 100000);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.bos_id, 1);
  EXPECT_EQ(c.eos_ids, std::vector<int32_t>{2});
  EXPECT_TRUE(c.tie_embeddings && c.qk_permuted);
  size_t q4_1 = 0, f32 = 0, q8_0 = 0;
  for (const Tensor& t : files.tensors->tensors()) {
    q4_1 += t.type == TensorType::kQ4_1;
    f32 += t.type == TensorType::kF32;
    q8_0 += t.type == TensorType::kQ8_0;
  }
  EXPECT_EQ(q4_1, 210u);
  EXPECT_EQ(f32, 61u);
  EXPECT_EQ(q8_0, 1u);
}

}  // namespace
}  // namespace prefix
