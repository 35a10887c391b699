// Model files that are cut, corrupt, contradictory or built to break their reader: estimate and
// create answer with a status and a sentence that names the file, and take nothing with them.
// So does the description of a model.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "abi_support.h"
#include "gguf_model.h"

namespace prefix_abi {
namespace {

using nlohmann::json;
using prefix::testing_support::GgufWriter;
using prefix::testing_support::TempFolder;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What estimate, create and model_info make of a path; all must agree.
prefix_status open_status(const std::string& path, std::string* message) {
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  Error estimate_error, create_error;
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
  const prefix_status estimated =
      prefix_engine_estimate(path.data(), path.size(), options, &memory, &estimate_error);
  Engine engine;
  const prefix_status created =
      prefix_engine_create(path.data(), path.size(), options, engine.out(), &create_error);
  EXPECT_EQ(engine == nullptr, created != PREFIX_OK);
  // The estimate reads headers only, which is where everything can be wrong that a load finds.
  EXPECT_EQ(created, estimated) << create_error.message << " / " << estimate_error.message;
  EXPECT_STREQ(create_error.message, estimate_error.message);
  Error info_error;
  char text[2048] = "as it is";
  size_t needed = 7;
  const prefix_status described =
      prefix_model_info_json(path.data(), path.size(), text, sizeof(text), &needed, &info_error);
  EXPECT_EQ(described, estimated) << info_error.message << " / " << estimate_error.message;
  EXPECT_STREQ(info_error.message, estimate_error.message);
  if (described == PREFIX_OK) {
    EXPECT_TRUE(json::accept(text)) << text;
  } else {
    EXPECT_STREQ(text, "as it is");
    EXPECT_EQ(needed, 7u);
  }
  if (estimated != PREFIX_OK) {
    EXPECT_EQ(memory.weight_bytes, 0) << "a call that fails changes nothing";
  }
  *message = create_error.message;
  return created;
}

void expect_refused(const std::string& path, prefix_status wanted,
                    std::initializer_list<std::string_view> parts = {}) {
  std::string message;
  const prefix_status got = open_status(path, &message);
  EXPECT_EQ(got, wanted) << prefix_status_name(got) << ": " << message;
  EXPECT_FALSE(message.empty());
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "lacks '" << part << "': " << message;
}

class BrokenDirectory : public testing::Test {
 protected:
  void SetUp() override {
    prefix::tools::write_checkpoint(folder_.path(), {});
    weights_ = read_file(folder_ / "model.safetensors");
    config_ = read_file(folder_ / "config.json");
    uint64_t length = 0;
    std::memcpy(&length, weights_.data(), 8);
    header_ = json::parse(weights_.substr(8, length));
    data_ = weights_.substr(8 + length);
  }
  void TearDown() override {  // the good files still load: it was the change that was refused
    folder_.write("model.safetensors", std::string_view(weights_));
    folder_.write("config.json", std::string_view(config_));
    std::string message;
    EXPECT_EQ(open_status(folder_.path(), &message), PREFIX_OK) << message;
  }

  void weights(std::string_view bytes) { folder_.write("model.safetensors", bytes); }
  void weights(uint64_t length, const std::string& header, const std::string& data) {
    weights(std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  }
  void expect_bad_header(const std::function<void(json&)>& change, prefix_status wanted,
                         std::initializer_list<std::string_view> parts) {
    json changed = header_;
    change(changed);
    const std::string text = changed.dump();
    weights(text.size(), text, data_);
    expect_refused(folder_.path(), wanted, parts);
  }
  void expect_bad_config(const std::function<void(json&)>& change, prefix_status wanted,
                         std::initializer_list<std::string_view> parts) {
    json changed = json::parse(config_);
    change(changed);
    folder_.write("config.json", std::string_view(changed.dump()));
    expect_refused(folder_.path(), wanted, parts);
  }

  TempFolder folder_;
  std::string weights_, config_, data_;
  json header_;
};

constexpr const char* kNorm = "model.norm.weight";

TEST_F(BrokenDirectory, Truncated) {
  const size_t size = weights_.size();
  const size_t header_end = size - data_.size();
  for (const size_t kept : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, header_end - 1,
                            header_end, header_end + 1, size / 2, size - 1}) {
    weights(std::string_view(weights_).substr(0, kept));
    expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"model.safetensors"});
  }
  weights(weights_ + "x");
  expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"model.safetensors", "1"});
}

TEST_F(BrokenDirectory, HeadersOfImpossibleLength) {
  const std::string text = header_.dump();
  for (const uint64_t length :
       {~uint64_t{0}, uint64_t{1} << 63, uint64_t{100000001}, uint64_t{1} << 32,
        uint64_t{weights_.size()}, uint64_t{0}, uint64_t{1}, text.size() - 1}) {
    weights(length, text, data_);
    expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"model.safetensors"});
  }
}

TEST_F(BrokenDirectory, HeadersThatAreNotTheirJson) {
  const std::string text = header_.dump();
  for (std::string wrong : {std::string("{"), std::string("{}}"), std::string("[]"),
                            std::string("null"), "{" + std::string(100000, '['),
                            "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}",
                            text.substr(0, text.size() - 1), text.substr(1),
                            std::string("{\"a\":{},\"a\":{}}"), std::string("{\"\xff\":{}}")}) {
    weights(wrong.size(), wrong, data_);
    expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"model.safetensors"});
  }
}

TEST_F(BrokenDirectory, TensorsThatOverlapOrLeaveHoles) {
  const auto range = [&](const char* name) {
    return header_[name]["data_offsets"].get<std::vector<uint64_t>>();
  };
  const auto norm = range(kNorm);
  const uint64_t bytes = norm[1] - norm[0];
  const auto with_offsets = [&](uint64_t begin, uint64_t end) {
    expect_bad_header([&](json& h) { h[kNorm]["data_offsets"] = {begin, end}; }, PREFIX_ERR_FORMAT,
                      {"model.safetensors"});
  };
  with_offsets(0, bytes);
  with_offsets(norm[0] + 2, norm[1] + 2);
  with_offsets(norm[1], norm[0]);
  with_offsets(norm[0], norm[1] + 2);
  with_offsets(norm[0], norm[0]);
  with_offsets(data_.size(), data_.size() + bytes);
  with_offsets(~uint64_t{0} - bytes + 1, ~uint64_t{0});
  with_offsets(uint64_t{1} << 63, (uint64_t{1} << 63) + bytes);
  // Two names for the same bytes.
  expect_bad_header([&](json& h) { h["a.second.name"] = h[kNorm]; }, PREFIX_ERR_FORMAT,
                    {"model.safetensors"});
}

TEST_F(BrokenDirectory, TensorsThatContradictThemselves) {
  const auto with = [&](const char* key, const json& value,
                        prefix_status wanted = PREFIX_ERR_FORMAT) {
    expect_bad_header([&](json& h) { h[kNorm][key] = value; }, wanted, {"model.norm.weight"});
  };
  with("shape", json::array({65}));
  with("shape", json::array({-64}));
  with("shape", json::array({64.0}));
  with("shape", json::array({0}));
  with("shape", json::array({uint64_t{1} << 62, 8}));
  with("shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 64}));
  with("shape", "64");
  with("dtype", "BF17", PREFIX_ERR_UNSUPPORTED_MODEL);
  with("dtype", "C64", PREFIX_ERR_UNSUPPORTED_MODEL);
  with("dtype", "I64");  // twice the bytes
  with("dtype", 7);
  with("data_offsets", json::array({0}));
  with("data_offsets", json::array({"0", "128"}));
  expect_bad_header([](json& h) { h[kNorm] = 5; }, PREFIX_ERR_FORMAT, {kNorm});
  expect_bad_header([](json& h) { h[kNorm].erase("dtype"); }, PREFIX_ERR_FORMAT, {kNorm});
}

TEST_F(BrokenDirectory, TensorsThatAreNotTheModels) {
  const auto renamed = [](const char* from, const char* to) {
    return [=](json& h) {
      h[to] = h[from];
      h.erase(from);
    };
  };
  std::string message;
  for (const char* name : {kNorm, "model.embed_tokens.weight"}) {
    json changed = header_;
    renamed(name, "something.else")(changed);
    const std::string text = changed.dump();
    weights(text.size(), text, data_);
    expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {name});
  }
  // As many bytes in another shape.
  json changed = header_;
  const auto shape = changed["model.embed_tokens.weight"]["shape"].get<std::vector<int64_t>>();
  changed["model.embed_tokens.weight"]["shape"] = {shape[1], shape[0]};
  const std::string text = changed.dump();
  weights(text.size(), text, data_);
  expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"model.embed_tokens.weight", "131", "64"});
}

TEST_F(BrokenDirectory, ConfigsThatAreWrong) {
  const auto with = [&](const char* key, const json& value, prefix_status wanted) {
    SCOPED_TRACE(std::string(key) + " = " + value.dump());
    expect_bad_config([&](json& c) { c[key] = value; }, wanted, {"config.json"});
  };
  for (const json& bad : {json(0), json(-1), json(1e300), json("64"), json(64.5), json(nullptr),
                          json(int64_t{1} << 40), json::array({64})})
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                            "intermediate_size"})
      with(key, bad, PREFIX_ERR_FORMAT);
  with("num_key_value_heads", 3, PREFIX_ERR_FORMAT);
  with("num_key_value_heads", 0, PREFIX_ERR_FORMAT);
  with("rms_norm_eps", "small", PREFIX_ERR_FORMAT);
  with("max_position_embeddings", -5, PREFIX_ERR_FORMAT);
  with("model_type", "gpt9", PREFIX_ERR_UNSUPPORTED_MODEL);
  with("model_type", "", PREFIX_ERR_FORMAT);
  with("model_type", 5, PREFIX_ERR_FORMAT);
  expect_bad_config([](json& c) { c.erase("hidden_size"); }, PREFIX_ERR_FORMAT, {"hidden_size"});
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("\xef\xbb\xbf{}"),
        std::string(3000000, '['), std::string("{\"a\": \"\xc3\"}"), config_ + "{}"}) {
    folder_.write("config.json", std::string_view(text));
    expect_refused(folder_.path(), PREFIX_ERR_FORMAT, {"config.json"});
  }
}

TEST_F(BrokenDirectory, MissingFiles) {
  namespace fs = std::filesystem;
  expect_refused(folder_ / "nowhere", PREFIX_ERR_NOT_FOUND, {"nowhere"});
  expect_refused(folder_ / "config.json/x", PREFIX_ERR_NOT_FOUND);
  fs::remove(folder_ / "model.safetensors");
  expect_refused(folder_.path(), PREFIX_ERR_NOT_FOUND, {"model.safetensors"});
  fs::create_directory(folder_ / "model.safetensors");
  std::string message;
  EXPECT_NE(open_status(folder_.path(), &message), PREFIX_OK);
  fs::remove(folder_ / "model.safetensors");
  fs::remove(folder_ / "config.json");
  expect_refused(folder_.path(), PREFIX_ERR_NOT_FOUND, {"config.json"});
  expect_refused("/dev/null", PREFIX_ERR_IO);
  expect_refused("", PREFIX_ERR_INVALID_ARGUMENT, {"empty"});
  expect_refused(model_path() + std::string("\0x", 2), PREFIX_ERR_INVALID_ARGUMENT, {"zero"});
  expect_refused(std::string(100000, 'a'), PREFIX_ERR_NOT_FOUND);
}

// Whatever single byte is changed, the answer is a status.
TEST_F(BrokenDirectory, FlippedBytesNeverCrash) {
  std::mt19937 random(11);
  const size_t header_end = weights_.size() - data_.size();
  std::string message;
  for (int i = 0; i < (quick() ? 50 : 300); ++i) {
    std::string bytes = weights_;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      bytes[random() % header_end] = static_cast<char>(random());
    weights(bytes);
    const prefix_status status = open_status(folder_.path(), &message);
    EXPECT_TRUE(status == PREFIX_OK || status == PREFIX_ERR_FORMAT ||
                status == PREFIX_ERR_UNSUPPORTED_MODEL)
        << prefix_status_name(status) << ": " << message;
  }
}

class BrokenGguf : public testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    return folder_.write("model.gguf", std::string_view(bytes));
  }
  std::string write(const GgufWriter& writer) const {
    const std::vector<std::byte> bytes = writer.bytes();
    return write(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void expect_bad(const GgufWriter& writer, prefix_status wanted = PREFIX_ERR_FORMAT) const {
    expect_refused(write(writer), wanted, {"model.gguf"});
  }
  TempFolder folder_;
};

TEST_F(BrokenGguf, TheGoodOneRuns) {
  const std::string path = write(gguf_model());
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(path.c_str(), PREFIX_NUL, nullptr, engine.out(), e);
  });
  expect_works(engine);
}

TEST_F(BrokenGguf, Truncated) {
  const std::string whole = read_file(write(gguf_model()));
  for (size_t kept = 0; kept < whole.size(); kept += kept < 1500 ? 13 : 997) {
    write(whole.substr(0, kept));
    expect_refused(folder_ / "model.gguf", PREFIX_ERR_FORMAT, {"model.gguf"});
  }
}

TEST_F(BrokenGguf, CountsAndOffsetsThatCannotBe) {
  for (const int64_t count : {int64_t{1} << 62, int64_t{1} << 40, int64_t{1} << 32, int64_t{12}}) {
    GgufWriter tensors = gguf_model(), keys = gguf_model();
    tensors.tensor_count = keys.key_count = count;
    expect_bad(tensors);
    expect_bad(keys);
  }
  for (const uint64_t offset : {uint64_t{32}, uint64_t{1}, ~uint64_t{0}, ~uint64_t{0} - 31,
                                uint64_t{1} << 63, uint64_t{1} << 30}) {
    GgufWriter w = gguf_model();
    w.tensors[1].offset = offset;
    expect_bad(w);
  }
  for (const std::vector<uint64_t>& dimensions :
       std::vector<std::vector<uint64_t>>{{},
                                          {0},
                                          {31},
                                          {~uint64_t{0}},
                                          {uint64_t{1} << 63, 2},
                                          {uint64_t{1} << 32, uint64_t{1} << 32},
                                          {32, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    GgufWriter w = gguf_model();
    w.tensors[1].dimensions = dimensions;
    std::string message;
    const prefix_status status = open_status(write(w), &message);
    EXPECT_TRUE(status == PREFIX_ERR_FORMAT || status == PREFIX_ERR_UNSUPPORTED_MODEL)
        << prefix_status_name(status) << ": " << message;
  }
  for (const uint32_t type : {uint32_t{4}, uint32_t{5}, uint32_t{99}, ~uint32_t{0}}) {
    GgufWriter w = gguf_model();
    w.tensors[1].type = type;
    std::string message;
    const prefix_status status = open_status(write(w), &message);
    EXPECT_TRUE(status == PREFIX_ERR_FORMAT || status == PREFIX_ERR_UNSUPPORTED_MODEL)
        << prefix_status_name(status) << ": " << message;
  }
  GgufWriter twice = gguf_model();
  twice.tensors[1].name = twice.tensors[2].name;
  expect_bad(twice);
  GgufWriter version = gguf_model();
  version.version = 99;
  std::string message;
  EXPECT_NE(open_status(write(version), &message), PREFIX_OK);
}

TEST_F(BrokenGguf, ListsAndTextsLongerThanTheFile) {
  const auto number = [](uint64_t value) {
    std::vector<std::byte> bytes;
    GgufWriter::put(bytes, value);
    return bytes;
  };
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 61, uint64_t{1} << 32}) {
    GgufWriter list = gguf_model();
    list.list("tokenizer.ggml.tokens", prefix::testing_support::GgufType::kString, length, {});
    expect_bad(list);
    GgufWriter numbers = gguf_model();
    numbers.list("x", prefix::testing_support::GgufType::kU64, length, {});
    expect_bad(numbers);
    GgufWriter name = gguf_model();
    name.raw(number(length));
    expect_bad(name);
  }
}

TEST_F(BrokenGguf, FlippedBytesNeverCrash) {
  std::mt19937 random(12);
  const std::string whole = read_file(write(gguf_model()));
  std::string message;
  for (int i = 0; i < (quick() ? 50 : 300); ++i) {
    std::string bytes = whole;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      bytes[random() % 1200] = static_cast<char>(random());
    write(bytes);
    const prefix_status status = open_status(folder_ / "model.gguf", &message);
    EXPECT_TRUE(status == PREFIX_OK || status == PREFIX_ERR_FORMAT ||
                status == PREFIX_ERR_UNSUPPORTED_MODEL || status == PREFIX_ERR_OUT_OF_RANGE)
        << prefix_status_name(status) << ": " << message;
  }
}

}  // namespace
}  // namespace prefix_abi
