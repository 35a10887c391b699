// Weights that a safetensors file has in parts: what they are, bit for bit, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"
#include "engine/engine_support.h"
#include "model/files/quantised_blocks.h"
#include "model/files/quantised_tensors.h"
#include "model/files/safetensors.h"
#include "ops/dequant.h"
#include "safetensors_writer.h"
#include "support/expect_error.h"
#include "support/hex.h"

namespace prefix {
namespace {

using testing_support::Bytes;
using testing_support::expect_error;
using testing_support::from_hex;
using testing_support::hex_of;
using testing_support::same_bits;

// One weight in parts: {"config", "name", "parts": {name: {"dtype", "shape", "bytes"}}, ...}.
Json fixture_of(const std::string& layout) {
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/model/quantised_fixture.json");
  return Json::parse(file).at(layout);
}

// A safetensors file of the parts.
Bytes file_of(const Json& parts) {
  Json header = Json::object();
  Bytes data;
  for (const auto& [name, part] : parts.items()) {
    const Bytes bytes = from_hex(part.at("bytes"));
    header[name] = {{"dtype", part.at("dtype")},
                    {"shape", part.at("shape")},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    testing_support::append(data, bytes.data(), bytes.size());
  }
  Bytes file = testing_support::safetensors_file(header.dump(), 0);
  testing_support::append(file, data.data(), data.size());
  return file;
}

TensorSource assembled(const Json& fixture) {
  TensorSource source;
  read_safetensors(std::make_shared<InputFile>("input", file_of(fixture.at("parts"))), source);
  assemble_quantised(quant_config_from_json({{"quantization_config", fixture.at("config")}}),
                     source);
  return source;
}

std::vector<float> values_of(const Tensor& t) {
  const int64_t width = t.row_values();
  std::vector<float> values(static_cast<size_t>(element_count(t.name, t.shape)));
  for (int64_t row = 0; row * width < static_cast<int64_t>(values.size()); ++row)
    read_row(t, row, values.data() + row * width);
  return values;
}

std::vector<std::string> layouts() {
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/model/quantised_fixture.json");
  const Json fixture = Json::parse(file);
  std::vector<std::string> names;
  for (const auto& [name, one] : fixture.items()) names.push_back(name);
  return names;
}

class Quantised : public testing::TestWithParam<std::string> {};

TEST_P(Quantised, EqualsTheFixture) {
  const Json fixture = fixture_of(GetParam());
  const TensorSource source = assembled(fixture);
  ASSERT_EQ(source.tensors().size(), 1u);
  const Tensor* t = source.find(fixture.at("name").get<std::string>());
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->shape, (std::vector<int64_t>{40, 32}));
  EXPECT_EQ(t->type, TensorType::kF32);
  const auto has = [](std::string_view part) { return GetParam().find(part) != std::string::npos; };
  EXPECT_EQ(t->kind(), has("mxfp4")                                 ? "MXFP4"
                       : has("fp8")                                 ? "F8_E4M3"
                       : has("int8") || has("w8a8") || has("gptq8") ? "INT8"
                                                                    : "INT4");
  size_t bytes = 0;
  for (const auto& [name, part] : fixture.at("parts").items())
    if (!name.ends_with("input_scale")) bytes += part.at("bytes").get<std::string>().size() / 2;
  EXPECT_EQ(t->bytes, bytes);
  const std::vector<float> values = values_of(*t);
  const Bytes first = from_hex(fixture.at("first"));
  EXPECT_EQ(std::memcmp(values.data(), first.data(), first.size()), 0);
  EXPECT_EQ(hex_of(sha256(std::as_bytes(std::span(values)))),
            fixture.at("sha256").get<std::string>());
}

// As blocks, if there are any.
std::vector<float> values_of_blocks(const Tensor& t, TensorType type) {
  const int64_t width = t.row_values();
  std::vector<float> values(static_cast<size_t>(element_count(t.name, t.shape)));
  std::vector<std::byte> row(static_cast<size_t>(ops::blocks_bytes(type, width)));
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    t.computed->read_row_blocks(i, row.data());
    ops::dequantise(type, row.data(), width, values.data() + i * width);
  }
  return values;
}

// What weights=packed keeps.
TEST_P(Quantised, BlocksHaveTheSameNumbers) {
  const std::map<std::string, TensorType> types = {
      {"ct-int4-group", TensorType::kQ4_0}, {"ct-int8-channel", TensorType::kQ8_0},
      {"ct-w8a8", TensorType::kQ8_0},       {"ct-w8a8-tensor", TensorType::kQ8_0},
      {"awq", TensorType::kQ5_0},           {"awq-row", TensorType::kQ5_0},
      {"gptq4", TensorType::kQ4_0},         {"gptq4-v2", TensorType::kQ5_0},
      {"gptq8-row", TensorType::kQ8_0},     {"mxfp4", TensorType::kMXFP4},
      {"ct-mxfp4", TensorType::kMXFP4}};
  const Json fixture = fixture_of(GetParam());
  const TensorSource source = assembled(fixture);
  const Tensor& t = source.tensors().front();
  const std::optional<TensorType> type = t.computed->blocks();
  const auto expected = types.find(GetParam());
  ASSERT_EQ(type.has_value(), expected != types.end());
  if (!type) return;
  EXPECT_EQ(*type, expected->second);
  if (*type == TensorType::kMXFP4)
    EXPECT_EQ(values_of_blocks(t, *type), values_of(t));  // blocks have one zero only
  else
    EXPECT_TRUE(same_bits(values_of_blocks(t, *type), values_of(t)));
}

// Rows in any order, from several threads, give the same.
TEST_P(Quantised, ReadsRowsInAnyOrder) {
  const TensorSource source = assembled(fixture_of(GetParam()));
  const Tensor& t = source.tensors().front();
  const std::vector<float> whole = values_of(t);
  std::vector<std::vector<float>> found(2, std::vector<float>(whole.size()));
  std::vector<std::thread> threads;
  for (std::vector<float>& values : found)
    threads.emplace_back([&t, &values] {
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t row = i * 27 % 40;
        read_blocks(t, row, reinterpret_cast<std::byte*>(values.data() + row * 32));
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& values : found)
    EXPECT_EQ(std::memcmp(values.data(), whole.data(), whole.size() * sizeof(float)), 0);
  EXPECT_THROW(read_row(t, 40, found[0].data()), Error);
}

// Without one of its parts a weight is refused by the name of that part, but for those that a
// layout may leave out.
TEST_P(Quantised, NamesAMissingPart) {
  const Json fixture = fixture_of(GetParam());
  for (const auto& [name, part] : fixture.at("parts").items()) {
    if (name.ends_with("g_idx") || name.ends_with("input_scale")) continue;
    Json less = fixture;
    less["parts"].erase(name);
    // Then no scheme fits. What is not packed may be.
    const std::string says = name.ends_with("weight_zero_point") ? "zero points"
                             : name.ends_with(".weight")         ? "is missing"
                                                                 : "\"" + name + "\" is missing";
    expect_error(Code::kFormat, {says}, [&] { assembled(less); });
  }
}

// A part of another shape is refused by its name, before anything is read.
TEST_P(Quantised, NamesAWrongShape) {
  const Json fixture = fixture_of(GetParam());
  for (const auto& [name, part] : fixture.at("parts").items()) {
    if (name.ends_with("input_scale")) continue;
    for (size_t i = 0; i < part.at("shape").size(); ++i) {
      Json other = fixture;
      Json& changed = other["parts"][name];
      const auto size = changed["shape"][i].get<size_t>();
      const size_t bytes = changed["bytes"].get<std::string>().size() / size * (size + 1);
      changed["shape"][i] = size + 1;
      changed["bytes"] = std::string(bytes, '0');
      try {
        // A weight with one scale for a row, or a block at its end, may have another size.
        const TensorSource source = assembled(other);
        EXPECT_TRUE(name.ends_with("weight")) << name << " " << changed["shape"];
        EXPECT_NE(source.tensors().front().shape, (std::vector<int64_t>{40, 32})) << name;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kFormat) << e.message();
        EXPECT_NE(e.message().find("shape"), std::string::npos) << e.message();
      }
    }
  }
}

TEST_P(Quantised, RefusesScalesThatAreNotFinite) {
  Json fixture = fixture_of(GetParam());
  for (auto& [name, part] : fixture["parts"].items()) {
    if (name.find("scale") == std::string::npos || name.ends_with("input_scale")) continue;
    const std::string dtype = part.at("dtype");
    auto hex = part.at("bytes").get<std::string>();
    const std::string nan = dtype == "F32" ? "0000c07f" : dtype == "U8" ? "ff" : "ff7f";
    const std::string good = hex;
    hex.replace(hex.size() - nan.size(), nan.size(), nan);
    part["bytes"] = hex;
    const TensorSource source = assembled(fixture);
    expect_error(Code::kFormat, {"\"" + name + "\"", "nan", "finite"},
                 [&] { values_of(source.tensors().front()); });
    if (dtype == "U8") continue;  // 2^-127
    // Nothing is a scale for nothing.
    part["bytes"] = std::string(good.size(), '0');
    for (const float v : values_of(assembled(fixture).tensors().front())) EXPECT_EQ(v, 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quantised, testing::ValuesIn(layouts()), [](const auto& layout) {
  std::string name = layout.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(QuantisedParts, NamesAGroupThatIsNotThere) {
  Json fixture = fixture_of("gptq4-order");
  for (const char* index : {"02000000", "feffffff", "ffffff7f"}) {
    std::string hex = fixture["parts"]["m.proj.g_idx"]["bytes"];
    fixture["parts"]["m.proj.g_idx"]["bytes"] = hex.replace(8, 8, index);
    expect_error(Code::kFormat, {"\"m.proj.g_idx\"", "column 1 ", "[0, 2)"},
                 [&] { values_of(assembled(fixture).tensors().front()); });
  }
  // -1 in the first place: columns lie in the order of their groups.
  Json plain = fixture_of("gptq4");
  const std::vector<float> expected = values_of(assembled(plain).tensors().front());
  std::string& hex = plain["parts"]["m.proj.g_idx"]["bytes"].get_ref<std::string&>();
  std::fill(hex.begin(), hex.end(), 'f');
  EXPECT_EQ(values_of(assembled(plain).tensors().front()), expected);
}

TEST(QuantisedParts, RefusesShapesThatAreNone) {
  Json fixture = fixture_of("ct-int4-group");
  Json& shape = fixture["parts"]["m.proj.weight_shape"]["bytes"];
  for (const char* wrong : {"28000000000000000000000000000000", "ffffffffffffffff2000000000000000",
                            "2800000000000000ffffffffffffff7f"}) {
    shape = wrong;
    expect_error(Code::kFormat, {"\"m.proj.weight_shape\" holds", "sizes are in [1, "},
                 [&] { assembled(fixture); });
  }
  for (const char* wrong :
       {"28000000000000002100000000000000", "29000000000000002000000000000000"}) {
    shape = wrong;
    expect_error(Code::kFormat, {"\"m.proj.weight_packed\"", "config_groups"},
                 [&] { assembled(fixture); });
  }
}

TEST(QuantisedParts, RefusesTypes) {
  Json fixture = fixture_of("awq");
  fixture["parts"]["m.proj.qzeros"]["dtype"] = "F32";
  expect_error(Code::kUnsupportedModel, {"\"m.proj.qzeros\" has dtype F32", "I32"},
               [&] { assembled(fixture); });
  fixture = fixture_of("gptq4");
  fixture["parts"]["m.proj.scales"]["dtype"] = "F8_E4M3";
  fixture["parts"]["m.proj.scales"]["shape"] = {1, 80};
  expect_error(Code::kUnsupportedModel, {"\"m.proj.scales\" has dtype F8_E4M3", "F32, F16, BF16"},
               [&] { assembled(fixture); });
}

// What no list and no part says to be a weight with scales is not taken for one,
// and has no numbers.
TEST(QuantisedParts, StrangersHaveNoNumbers) {
  const auto refused = [](const TensorSource& source, const std::string& name, const char* type) {
    ASSERT_NE(source.find(name), nullptr);
    expect_error(Code::kUnsupportedModel,
                 {"\"" + name + "\" has dtype " + type, "F32, F16, BF16", "quantization_config"},
                 [&] { require_numbers(*source.find(name)); });
  };
  for (const char* layout : {"awq", "ct-fp8", "mxfp4"}) {
    Json fixture = fixture_of(layout);
    fixture["parts"]["m.other"] = {{"dtype", "I8"}, {"shape", {2}}, {"bytes", "0102"}};
    refused(assembled(fixture), "m.other", "I8");
  }
  Json fixture = fixture_of("ct-fp8");
  TensorSource source;
  read_safetensors(std::make_shared<InputFile>("input", file_of(fixture["parts"])), source);
  assemble_quantised({}, source);
  refused(source, "m.proj.weight", "F8_E4M3");
}

// Whatever is wrong with parts that nobody reads.
TEST(QuantisedParts, StayWhereTheyAreLeftOut) {
  Json fixture = fixture_of("awq");
  fixture["parts"].erase("m.proj.qzeros");
  TensorSource source;
  read_safetensors(std::make_shared<InputFile>("input", file_of(fixture["parts"])), source);
  const QuantConfig config = quant_config_from_json({{"quantization_config", fixture["config"]}});
  assemble_quantised(config, source, [](std::string_view name) { return name.starts_with("m."); });
  EXPECT_NE(source.find("m.proj.qweight"), nullptr);
  expect_error(Code::kFormat, {"m.proj.qzeros", "missing"},
               [&] { assemble_quantised(config, source); });
}

TEST(QuantisedParts, HoldsAFileToTheListOfPlainModules) {
  for (const auto& [layout, key] :
       {std::pair("awq", "modules_to_not_convert"), std::pair("ct-int4-group", "ignore"),
        std::pair("fp8-block", "modules_to_not_convert"), std::pair("fp8-row", "ignored_layers")}) {
    Json fixture = fixture_of(layout);
    for (const char* name : {"m.proj", "m"}) {
      fixture["config"][key] = {"lm_head", name};
      expect_error(Code::kFormat,
                   {"\"" + std::string(name) + "\" is not quantised", "m.proj.weight"},
                   [&] { assembled(fixture); });
    }
    for (const char* name : {"m.pro", "proj", "re:.*"}) {
      fixture["config"][key] = {name};
      EXPECT_NO_THROW(assembled(fixture)) << name;
    }
  }
}

// A bias of zeros that AutoGPTQ adds may be left; another one is a part of the model.
TEST(QuantisedParts, MarksBiasesOfZeros) {
  Json fixture = fixture_of("gptq4");
  std::string hex(160, '0');
  fixture["parts"]["m.proj.bias"] = {{"dtype", "F16"}, {"shape", {40}}, {"bytes", hex}};
  EXPECT_TRUE(assembled(fixture).find("m.proj.bias")->may_be_left);
  hex.replace(158, 2, "3c");
  fixture["parts"]["m.proj.bias"]["bytes"] = hex;
  EXPECT_FALSE(assembled(fixture).find("m.proj.bias")->may_be_left);
}

// Groups of 64 columns, of which each has its own scale and zero, as long as they are in order.
TEST(QuantisedBlocks, HaveTheScaleOfTheirGroup) {
  constexpr int64_t kRows = 8, kColumns = 192, kGroups = 3;
  std::mt19937 random(11);
  const auto part = [](const char* type, std::vector<int64_t> shape, const std::string& bytes) {
    return Json{{"dtype", type}, {"shape", std::move(shape)}, {"bytes", bytes}};
  };
  const auto words = [&](int64_t n) {
    std::string hex;
    while (n-- > 0) hex += testing_support::to_hex(static_cast<uint32_t>(random()));
    return hex;
  };
  std::string scales, groups;
  for (int64_t i = 0; i < kRows * kGroups; ++i)  // of any sign, some below the normal ones
    scales +=
        testing_support::to_hex(static_cast<uint16_t>(random() % 0x3c00 | random() % 2 << 15));
  for (int32_t c = 0; c < kColumns; ++c) groups += testing_support::to_hex(c / 64);
  Json fixture = fixture_of("gptq4-v2");
  fixture["config"]["group_size"] = 64;
  Json& parts = fixture["parts"];
  parts = {{"m.proj.qweight", part("I32", {kColumns / 8, kRows}, words(kColumns))},
           {"m.proj.qzeros", part("I32", {kGroups, 1}, words(kGroups))},
           {"m.proj.scales", part("F16", {kGroups, kRows}, scales)},
           {"m.proj.g_idx", part("I32", {kColumns}, groups)}};
  const TensorSource source = assembled(fixture);
  const Tensor& t = source.tensors().front();
  ASSERT_EQ(t.computed->blocks(), TensorType::kQ5_0);
  EXPECT_TRUE(same_bits(values_of_blocks(t, TensorType::kQ5_0), values_of(t)));
  parts["m.proj.g_idx"]["bytes"] = groups.replace(0, 8, "02000000");
  EXPECT_EQ(assembled(fixture).tensors().front().computed->blocks(), std::nullopt);
}

TEST(QuantisedBlocks, ExactHalves) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = ops::half_to_float(static_cast<uint16_t>(half));
    const bool finite = (half & 0x7c00) != 0x7c00;
    ASSERT_EQ(exact_half(value), finite ? std::optional(half) : std::nullopt) << half;
    const float next = std::nextafter(value, 1e6f);
    if (finite && exact_half(next)) FAIL() << half;
  }
  EXPECT_EQ(exact_half(65536), std::nullopt);
}

// Not for scales that no f16 holds, and for zeros that no code reaches.
TEST(QuantisedBlocks, AreThereForExactScales) {
  const auto blocks = [](const Json& fixture) {
    return assembled(fixture).tensors().front().computed->blocks();
  };
  Json zeros = fixture_of("ct-int4-group");
  Json& part = zeros["parts"]["m.proj.weight_zero_point"];
  part = {{"dtype", "I8"}, {"shape", {40, 1}}, {"bytes", std::string(80, '0')}};
  EXPECT_EQ(blocks(zeros), TensorType::kQ4_0);
  part["bytes"] = std::string(78, '0') + "20";
  EXPECT_EQ(blocks(zeros), std::nullopt);
  for (const auto& [scale, exact] : std::map<std::string, bool>{{"8033", true},
                                                                {"0137", true},
                                                                {"7f47", true},
                                                                {"0136", false},
                                                                {"8047", false},
                                                                {"c07f", false}}) {
    Json fixture = fixture_of("ct-int4-group");
    std::string scales = fixture["parts"]["m.proj.weight_scale"]["bytes"];
    fixture["parts"]["m.proj.weight_scale"]["bytes"] = scales.replace(4, 4, scale);
    EXPECT_EQ(blocks(fixture).has_value(), exact) << scale;
  }
}

// int-quantized stores a code of any number of bits in a byte of its own, as for W4A8.
TEST(QuantisedParts, CodesOfFourBitsMayHaveBytes) {
  Json fixture = fixture_of("ct-w8a8");
  const std::vector<float> eight = values_of(assembled(fixture).tensors().front());
  for (Json& group : fixture["config"]["config_groups"]) group["weights"]["num_bits"] = 4;
  EXPECT_EQ(values_of(assembled(fixture).tensors().front()), eight);
  EXPECT_EQ(assembled(fixture).tensors().front().computed->blocks(), TensorType::kQ8_0);
}

// Version 1 of GPTQ: one is added to a word, so what was borrowed from the next zero point is back.
TEST(QuantisedParts, AddsOneToAWholeWordOfZeros) {
  Json fixture = fixture_of("gptq4");
  Json v2 = fixture_of("gptq4");
  v2["config"]["checkpoint_format"] = "gptq_v2";
  std::string zeros = fixture["parts"]["m.proj.qzeros"]["bytes"];
  // Zero points 0, 1, 0, ...: stored as 0x00000010 - 0x11111111.
  fixture["parts"]["m.proj.qzeros"]["bytes"] = zeros.replace(0, 8, "ffeeeeee");
  v2["parts"]["m.proj.qzeros"]["bytes"] = std::string(zeros).replace(0, 8, "10000000");
  const std::vector<float> one = values_of(assembled(fixture).tensors().front());
  const std::vector<float> two = values_of(assembled(v2).tensors().front());
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 8 * 32, two.begin()));
}

}  // namespace
}  // namespace prefix
