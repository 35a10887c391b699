// Option pack_to: what it writes computes the bits of compute=int8 with the model itself, wherever
// it is read from and at whatever level it was written; what is damaged is refused.
#include "model/load/packed_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "engine/calibration.h"
#include "engine/engine_support.h"
#include "engine/poisoned_checkpoint.h"
#include "model/files/model_files.h"
#include "model/model.h"
#include "model/model_info.h"
#include "support/cases.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/relative_error.h"
#include "support/renamed_tensors.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;
using testing_support::expect_error;
using testing_support::make_options;
using testing_support::OptionList;
using testing_support::run_all;
using testing_support::TempFolder;
using testing_support::TinyCheckpoint;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const OptionList kHeadKept = {{"compute_keep", "head"}};

std::shared_ptr<Engine> open_int8(const ModelSource& source, const OptionList& list = {}) {
  Options options = make_options(list);
  options.set("compute", "int8");
  return Engine::create(source, options, nullptr);
}

void pack(const std::string& model, const std::string& to, const OptionList& list = {}) {
  Options options = make_options(list);
  options.set("compute", "int8");
  options.set("pack_to", to);
  Engine::create(model, options, nullptr);
}

RequestSpec some_request() { return testing_support::many_logits(40, 60); }

std::vector<float> logits(Engine& engine) {
  return testing_support::values_of(engine, some_request());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Sha256::Digest fingerprint(const std::string& path, const std::string& keep) {
  ops::CpuOptions options;
  options.types.int8 = ops::kInt8All;
  if (keep == "head") options.types.int8 &= ~ops::int8_bit(ops::MatrixKind::kHead);
  const auto device = ops::make_cpu_device(options);
  const ModelFiles files = open_model(path);
  const Calibration calibration = calibrate(files, {.types = options.types}, nullptr);
  return Model(files, *device, 64, nullptr, {.calibration = &calibration}).fingerprint(1);
}

// All models of the golden vectors that have logits.
std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, architecture] : testing_support::golden_architectures())
    names.push_back(name);
  return names;
}

class PackedModels : public testing::TestWithParam<std::string> {};

TEST_P(PackedModels, HaveTheBitsAndTheNamesOfTheModelItself) {
  const std::string model = testing_support::golden_models() + "/" + GetParam();
  const std::string keep = GetParam().size() % 2 == 0 ? "head" : "";
  const OptionList options = {{"compute_keep", keep}};
  const TempFolder folder;
  const std::string packed = folder / (GetParam().ends_with(".gguf") ? "packed.gguf" : "packed");
  pack(model, packed, options);
  const auto want = open_int8(model, options), got = open_int8(packed, options);
  EXPECT_TRUE(same_bits(logits(*got), logits(*want)));
  EXPECT_EQ(got->stats().weight_bytes, want->stats().weight_bytes);
  EXPECT_EQ(fingerprint(packed, keep), fingerprint(model, keep));
  const Options set = make_options({{"compute", "int8"}, {"compute_keep", keep}});
  EXPECT_EQ(Engine::estimate(packed, set).weight_bytes, Engine::estimate(model, set).weight_bytes);
  const auto info = nlohmann::json::parse(model_info_json(packed));
  const auto plain = nlohmann::json::parse(model_info_json(model));
  EXPECT_EQ(info.at("sizes"), plain.at("sizes"));
  expect_error(Code::kInvalidArgument, {"whole numbers", "compute=int8"},
               [&] { Engine::create(packed, make_options({}), nullptr); });
}

// Published files often hold the embedding once more, under the name of an output matrix.
TEST(PackedModel, OfAGgufFileWithoutATensorIsRefusedByName) {
  const TempFolder folder;
  const std::string packed = folder / "packed.gguf";
  pack(testing_support::golden_models() + "/llama-gguf-q8_0.gguf", packed);
  std::string bytes = read(packed);
  bytes.replace(bytes.find("blk.1.attn_norm.weight"), 22, "blk.1.attn_Norm.weight");
  std::ofstream(packed, std::ios::binary) << bytes;
  expect_error(Code::kFormat, {packed, "blk.1.attn_norm.weight", "missing"},
               [&] { open_int8(packed); });
}

TEST(PackedModel, OfATiedModelWhoseFileRepeatsTheEmbedding) {
  const std::string from = testing_support::golden_models() + "/mistral-base";
  const TempFolder folder;
  auto config = nlohmann::json::parse(testing_support::file_text(from + "/config.json"));
  config["tie_word_embeddings"] = true;
  folder.write("config.json", config.dump());
  std::string bytes = testing_support::file_text(from + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  const auto place = [&](const char* name) {
    return 8 + length + header.at(name).at("data_offsets").at(0).get<size_t>();
  };
  const auto offsets = header.at("lm_head.weight").at("data_offsets").get<std::vector<size_t>>();
  const size_t size = offsets.at(1) - offsets.at(0);
  bytes.replace(place("lm_head.weight"), size,
                bytes.substr(place("model.embed_tokens.weight"), size));
  folder.write("model.safetensors", bytes);
  const std::string packed = folder / "packed";
  pack(folder.path(), packed, {});
  const auto want = open_int8(folder.path(), {}), got = open_int8(packed, {});
  EXPECT_TRUE(same_bits(logits(*got), logits(*want)));
  EXPECT_EQ(got->stats().weight_bytes, want->stats().weight_bytes);
  const auto text = nlohmann::json::parse(got->info_json());
  EXPECT_TRUE(text.at("model").at("tied").get<bool>());
}

INSTANTIATE_TEST_SUITE_P(Golden, PackedModels, testing::ValuesIn(model_names()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

class Packed : public testing::Test {
 protected:
  Packed() : checkpoint_(shape()), path_(folder_ / "packed") {
    fs::create_directory(checkpoint_.path() + "/1_Pooling");
    std::ofstream(checkpoint_.path() + "/1_Pooling/config.json") << "{}";
    for (const char* name : {"/tokenizer.json", "/chat_template.jinja", "/LICENSE", "/notes.bin",
                             "/.hidden.json", "/pytorch_model.bin.index.json"})
      std::ofstream(checkpoint_.path() + name) << "{}";
    pack(checkpoint_.path(), path_, kHeadKept);
    file_ = path_ + "/" + kPackedFile;
    bytes_ = read(file_);
  }
  static tools::CheckpointShape shape() {
    tools::CheckpointShape shape = testing_support::poisoned_shape();
    shape.hidden = 64;
    return shape;
  }

  nlohmann::ordered_json header() const {
    uint64_t length;
    std::memcpy(&length, bytes_.data(), sizeof length);
    return nlohmann::ordered_json::parse(bytes_.substr(8, length));
  }
  // The file with another header; what `data` it has stays.
  void write(const nlohmann::ordered_json& header) const {
    uint64_t length;
    std::memcpy(&length, bytes_.data(), sizeof length);
    const std::string text = header.dump();
    const uint64_t now = text.size();
    std::ofstream(file_, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&now), sizeof now) << text
        << bytes_.substr(8 + length);
  }
  void write(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }
  // Where a tensor begins in the file.
  size_t begin_of(const std::string& tensor) const {
    uint64_t length;
    std::memcpy(&length, bytes_.data(), sizeof length);
    return 8 + length + header().at(tensor).at("data_offsets")[0].get<size_t>();
  }
  // With another text of the metadata.
  void write_shapes(const std::function<void(nlohmann::ordered_json&)>& change) const {
    nlohmann::ordered_json all = header();
    auto& text = all["__metadata__"][kPackedKey];
    nlohmann::ordered_json packed = nlohmann::ordered_json::parse(text.get<std::string>());
    change(packed);
    text = packed.dump();
    write(all);
  }
  void expect_refused(Code code, std::initializer_list<std::string_view> parts) const {
    expect_error(code, parts, [&] { open_int8(path_); });
  }

  const TempFolder folder_;
  const TinyCheckpoint checkpoint_;
  std::string path_, file_, bytes_;
};

TEST_F(Packed, TakesTheFilesThatSayHowItIsUsed) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path_).string());
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"1_Pooling/config.json", "LICENSE", "chat_template.jinja",
                                      "config.json", "prefix_int8.safetensors", "tokenizer.json"}));
  EXPECT_EQ(read(path_ + "/config.json"), read(checkpoint_.path() + "/config.json"));
}

TEST_F(Packed, BeginsWherePagesDo) {
  const nlohmann::ordered_json all = header();
  for (const auto& [name, entry] : all.items())
    if (name.ends_with(".panels")) {
      EXPECT_EQ(begin_of(name) % 1024, 0u) << name;
    }
  EXPECT_EQ(begin_of("int8.layers.0.mixer_in.panels") % 4096, 0u);
  for (const auto& [name, entry] : all.items())
    EXPECT_FALSE(name.ends_with("q_proj.weight")) << name;
}

TEST_F(Packed, IsReadFromMemoryAsFromFiles) {
  auto files = std::make_shared<FedFiles>();
  const std::string config = read(path_ + "/config.json");
  const auto add = [&](const char* name, const std::string& text) {
    files->add(name, std::as_bytes(std::span(text)));
  };
  add("config.json", config);
  add(kPackedFile, bytes_);
  const auto fed = open_int8(ModelSource(files)), opened = open_int8(path_);
  EXPECT_TRUE(same_bits(logits(*fed), logits(*opened)));
  // A source is packed like a directory.
  auto plain = std::make_shared<FedFiles>();
  const std::string weights = read(checkpoint_.path() + "/model.safetensors");
  plain->add("config.json", std::as_bytes(std::span(config)));
  plain->add("model.safetensors", std::as_bytes(std::span(weights)));
  const std::string to = folder_ / "from-memory";
  Options options = make_options({{"compute", "int8"}, {"compute_keep", "head"}, {"pack_to", to}});
  Engine::create(ModelSource(plain), options, nullptr);
  EXPECT_EQ(read(to + "/" + kPackedFile), bytes_);
}

TEST_F(Packed, IsTheSameFileAtEveryLevelAndAnyThreads) {
  for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
    if (!level.available) continue;
    const std::string name(level.name), to = folder_ / name;
    pack(checkpoint_.path(), to,
         {{"isa", name}, {"threads", "2"}, {"dtype", "f32"}, {"compute_keep", "head"}});
    EXPECT_EQ(read(to + "/" + kPackedFile), bytes_) << name;
  }
}

TEST_F(Packed, OtherMatricesMayBeAddedAndNoneTakenAway) {
  // The head is in the file as it was: it can be packed while it is loaded,
  // by the inputs that it has there.
  const OptionList all = {{"compute_keep", ""}};
  const auto added = open_int8(path_, all), whole = open_int8(checkpoint_.path(), all);
  EXPECT_EQ(added->stats().weight_bytes, whole->stats().weight_bytes);
  EXPECT_LT(testing_support::relative_error(logits(*added), logits(*whole)), 0.05);
  expect_error(Code::kInvalidArgument, {kPackedFile, "down", "compute_keep"},
               [&] { open_int8(path_, {{"compute_keep", "head,down"}}); });
  expect_error(Code::kInvalidArgument, {path_, "already"}, [&] { pack(path_, folder_ / "again"); });
}

TEST_F(Packed, IsWrittenWithTheRightOptionsOnly) {
  const auto refused = [&](Code code, std::initializer_list<std::string_view> parts,
                           const OptionList& list) {
    expect_error(code, parts,
                 [&] { Engine::create(checkpoint_.path(), make_options(list), nullptr); });
  };
  const std::string to = folder_ / "other";
  refused(Code::kInvalidArgument, {"pack_to", to, "compute=int8"}, {{"pack_to", to}});
  refused(Code::kInvalidArgument, {"compute_keep"},
          {{"pack_to", to},
           {"compute", "int8"},
           {"compute_keep", "head,mixer_in,mixer_out,gate_up,down"}});
  refused(Code::kInvalidArgument, {path_, "already"}, {{"pack_to", path_}, {"compute", "int8"}});
  refused(Code::kIo, {"nowhere"}, {{"pack_to", folder_ / "nowhere/x"}, {"compute", "int8"}});
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(read(file_), bytes_);
}

// What is known at once is said at once.
TEST_F(Packed, WhatIsInTheWayIsSaidBeforeAnythingIsRead) {
  const auto never = [](double) -> bool { throw std::logic_error("a model was loaded"); };
  const Options options = make_options({{"pack_to", path_}, {"compute", "int8"}});
  expect_error(Code::kInvalidArgument, {path_},
               [&] { Engine::create(checkpoint_.path(), options, never); });
  Options again = options;
  again.set("pack_to", folder_ / "again");
  expect_error(Code::kInvalidArgument, {"already"}, [&] { Engine::create(path_, again, never); });
}

TEST_F(Packed, AttentionThatIsAskedForChangesNoWeights) {
  const OptionList both = {{"compute_keep", "head"}, {"attention", "bidirectional"}};
  const std::string to = folder_ / "bidirectional";
  pack(checkpoint_.path(), to, both);
  EXPECT_EQ(read(to + "/" + kPackedFile), bytes_);
  const auto vector = [&](const std::string& path) {
    RequestSpec spec = some_request();
    spec.task = Task::kEmbed;
    spec.logit_ids.clear();
    const auto engine = open_int8(path, both);
    return testing_support::values_of(*engine, spec);
  };
  EXPECT_TRUE(same_bits(vector(path_), vector(checkpoint_.path())));
}

// What is not whole is not there.
TEST_F(Packed, NothingIsLeftOfAWriteThatEndedEarly) {
  const std::string to = folder_ / "other";
  Options options = make_options({{"compute", "int8"}, {"pack_to", to}});
  int calls = 0;
  const auto whole = [&](double) { return ++calls > 0; };
  Engine::create(checkpoint_.path(), options, whole);
  fs::remove_all(to);
  for (int stage = 1; stage <= calls; ++stage) {
    int at = 0;
    expect_error(Code::kCancelled, {}, [&] {
      Engine::create(checkpoint_.path(), options, [&](double) { return ++at < stage; });
    });
    if (fs::exists(to)) {  // the load of what was written had begun
      EXPECT_NO_THROW(open_int8(to));
      fs::remove_all(to);
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << stage;
  }
}

TEST_F(Packed, NumbersThatAreNotFiniteAreNotWritten) {
  const TinyCheckpoint checkpoint(shape());
  {
    testing_support::StoredWeights weights(checkpoint.path());
    weights.set("model.layers.1.mlp.up_proj.weight", 3, 5, std::numeric_limits<float>::infinity());
  }
  expect_error(Code::kUnsupportedModel, {"layers.1.gate_up", "not finite"},
               [&] { pack(checkpoint.path(), folder_ / "other"); });
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

// A row of the kept embedding fails its own requests, as without packing.
TEST_F(Packed, PoisonInWhatIsKeptFailsItsOwnRequest) {
  const TinyCheckpoint checkpoint(testing_support::poisoned_shape());
  {
    testing_support::StoredWeights weights(checkpoint.path());
    weights.set_row("model.embed_tokens.weight", testing_support::kBadToken,
                    std::numeric_limits<float>::quiet_NaN());
  }
  pack(checkpoint.path(), folder_ / "other", kHeadKept);
  const auto engine = open_int8(folder_ / "other", kHeadKept);
  RequestSpec good = some_request(), bad = some_request();
  std::ranges::replace(good.tokens, testing_support::kBadToken, 9);
  bad.tokens = {1, 2, testing_support::kBadToken, 4};
  const auto job = run_all(*engine, {good, bad});
  EXPECT_EQ(job->result(0).status, Code::kOk);
  EXPECT_EQ(job->result(1).status, Code::kNotFinite);
}

// All weights zero: a scale of 0.
TEST_F(Packed, ScalesOfZeroAreNumbers) {
  const std::string name = "int8.layers.0.mixer_out.scales";
  std::string bytes = bytes_;
  const auto size = header().at(name).at("shape")[0].get<size_t>() * sizeof(float);
  std::memset(bytes.data() + begin_of(name), 0, size);
  write(bytes);
  const auto engine = open_int8(path_);
  for (const float x : logits(*engine)) EXPECT_TRUE(std::isfinite(x));
}

TEST_F(Packed, OtherScalesAreRefused) {
  const std::string name = "int8.layers.1.down.scales";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [scale, shown] : std::map<float, std::string>{
           {-1.0f, "-1"}, {-0.0f, "-0"}, {kInfinity, "inf"}, {-kInfinity, "-inf"}}) {
    std::string bytes = bytes_;
    std::memcpy(bytes.data() + begin_of(name) + 5 * sizeof(float), &scale, sizeof scale);
    write(bytes);
    expect_refused(Code::kFormat, {name, "scale 5 is " + shown});
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::string bytes = bytes_;
  std::memcpy(bytes.data() + begin_of(name), &nan, sizeof nan);
  write(bytes);
  expect_refused(Code::kFormat, {name, "scale 0 is", "nan"});
}

TEST_F(Packed, DamagedHeadersAreRefusedByName) {
  using Json = nlohmann::ordered_json;
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json all = header();
    change(all);
    write(all);
  };
  // The same bytes under another name.
  const auto rename = [&](const std::string& from, const std::string& to) {
    changed([&](Json& all) {
      Json other = Json::object();
      for (const auto& [name, value] : all.items()) other[name == from ? to : name] = value;
      all = other;
    });
  };
  changed([](Json& all) { all.erase("__metadata__"); });
  expect_refused(Code::kFormat, {kPackedFile, kPackedKey});
  changed([](Json& all) { all["__metadata__"][kPackedKey] = "{"; });
  expect_refused(Code::kFormat, {kPackedFile, kPackedKey});
  changed([](Json& all) { all["__metadata__"][kPackedKey] = "{\"version\":2}"; });
  expect_refused(Code::kFormat, {kPackedFile, kPackedKey, "shapes"});
  write_shapes([](Json& packed) { packed["version"] = 1; });
  expect_refused(Code::kUnsupportedModel, {"version 1", "version 2"});
  write_shapes([](Json& packed) { packed["shapes"]["model.norm.weight"] = {64}; });
  expect_refused(Code::kFormat, {"model.norm.weight", "twice"});
  write_shapes([](Json& packed) { packed["shapes"]["model.layers.0.mlp.up_proj.weight"] = {-1}; });
  expect_refused(Code::kFormat, {"mlp.up_proj.weight", "-1"});
  write_shapes(
      [](Json& packed) { packed["shapes"]["model.layers.0.mlp.up_proj.weight"] = {1, 2}; });
  expect_refused(Code::kFormat, {"mlp.up_proj.weight", "[1, 2]"});
  write_shapes([](Json& packed) { packed["shapes"]["a"] = "b"; });
  expect_refused(Code::kFormat, {"\"a\"", "\"b\""});
  write_shapes([](Json& packed) { packed["shapes"].erase("model.layers.0.mlp.up_proj.weight"); });
  expect_refused(Code::kFormat, {"mlp.up_proj.weight", "missing"});
  rename("int8.layers.0.down.scales", "int8.layers.0.down.other");
  expect_refused(Code::kFormat, {"int8.layers.0.down.scales", "missing"});
  rename("int8.layers.0.down.panels", "int8.layers.0.up.panels");
  expect_refused(Code::kFormat, {"int8.layers.0.up.panels", "no kind"});
  // A matrix of a layer that is not there, and none of one that is.
  changed([](Json& all) {
    Json other = Json::object();
    for (const auto& [name, value] : all.items()) {
      std::string to = name;
      if (to.starts_with("int8.layers.1.down")) to.replace(12, 1, "7");
      other[to] = value;
    }
    all = other;
  });
  expect_refused(Code::kFormat, {"layers.1.down", "missing"});
  changed([](Json& all) {
    Json& shape = all["int8.layers.0.down.panels"]["shape"];
    std::swap(shape[0], shape[1]);
  });
  expect_refused(Code::kFormat, {"int8.layers.0.down.panels", "U8"});
  changed([](Json& all) { all["int8.layers.0.down.panels"]["dtype"] = "F8_E4M3"; });
  expect_refused(Code::kFormat, {"int8.layers.0.down.panels", "F8_E4M3"});
  // What is needed by itself, in matrices only.
  changed([&](Json& all) {
    auto& text = all["__metadata__"][kPackedKey];
    Json packed = Json::parse(text.get<std::string>());
    packed["shapes"]["model.norm.weight"] = {64};
    text = packed.dump();
    Json other = Json::object();
    for (const auto& [name, value] : all.items())
      other[name == "model.norm.weight" ? "model.other.weight" : name] = value;
    all = other;
  });
  expect_error(Code::kFormat, {"model.norm.weight", "matrices only"},
               [&] { open_int8(path_, kHeadKept); });
}

TEST_F(Packed, MatricesOfLayersThatAreNotThereAreRefused) {
  const std::string config = read(path_ + "/config.json");
  auto json = nlohmann::ordered_json::parse(config);
  json["num_hidden_layers"] = 1;
  std::ofstream(path_ + "/config.json") << json.dump();
  expect_refused(Code::kFormat, {"int8.layers.1.", "not part of this architecture"});
}

// Address space of the process, of which the memory of matrices is a part from the
// moment on that it is asked for.
int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// After a load that was ended, and while one is written, behind its calibration.
TEST_F(Packed, GivesMemoryBack) {
  tools::CheckpointShape shape;
  shape.hidden = 512;
  shape.intermediate = 2048;
  shape.layers = 4;
  const TinyCheckpoint checkpoint(shape);
  const int64_t matrices = 4 * 512 * 3 * 2048;  // most of them, of int8
  const Options options = make_options({{"compute", "int8"}, {"threads", "1"}});
  const auto load = [&] {
    expect_error(Code::kCancelled, {}, [&] {
      Engine::create(checkpoint.path(), options, [&](double done) { return done < 0.9; });
    });
  };
  load();  // what stays of a first time
  const int64_t before = address_space();
  for (int i = 0; i < 4; ++i) load();
  EXPECT_LT(address_space() - before, matrices);
  int64_t most = 0;
  Options set = options;
  set.set("pack_to", folder_ / "large");
  Engine::create(checkpoint.path(), set, [&](double done) {
    if (done > 0.5 && done < 0.9) most = std::max(most, address_space());
    return true;
  });
  EXPECT_GT(most, 0);
  EXPECT_LT(most - before, matrices / 2);
}

TEST_F(Packed, CutFilesAreRefused) {
  for (size_t i = 0; i < 40; ++i) {
    write(bytes_.substr(0, bytes_.size() * i / 40));
    expect_refused(Code::kFormat, {kPackedFile});
  }
  fs::remove(file_);
  expect_refused(Code::kNotFound, {path_});
}

// Bytes of any kind: refused, or a model whose requests end.
TEST_F(Packed, MutatedFilesAreRefusedOrRun) {
  std::mt19937 random(11);
  uint64_t length;
  std::memcpy(&length, bytes_.data(), sizeof length);
  int ran = 0, refused = 0;
  for (int round = 0; round < testing_support::cases(300); ++round) {
    std::string bytes = bytes_;
    const size_t limit = round % 2 == 0 ? 8 + header().dump().size() : bytes.size();
    for (uint32_t n = 1 + random() % 8; n > 0; --n)
      bytes[random() % limit] = static_cast<char>(random());
    write(bytes);
    try {
      const auto engine = open_int8(path_, {{"threads", "1"}});
      const auto job = run_all(*engine, {some_request()});
      const Code code = job->result(0).status;
      EXPECT_TRUE(code == Code::kOk || code == Code::kNotFinite) << job->result(0).message;
      ++ran;
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(e.code(), Code::kInternal) << e.message();
    }
  }
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace prefix
