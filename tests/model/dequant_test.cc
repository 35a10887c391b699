// The decoder of every block type, bit for bit against the Python `gguf` package.
#include "ops/dequant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "model/files/gguf.h"
#include "support/golden.h"
#include "support/hex.h"

namespace prefix {
namespace {

using testing_support::from_hex;
using testing_support::hex_of;

const TensorType kAllTypes[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K, TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4};

TEST(Dequant, EqualsTheFixture) {
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/model/dequant_fixture.json");
  const nlohmann::json fixture = nlohmann::json::parse(file);
  size_t types = 0;
  for (const TensorType type : kAllTypes) {
    const std::string name(tensor_type_name(type));
    if (type == TensorType::kF32) continue;  // a copy
    ++types;
    const std::vector<std::byte> blocks = from_hex(fixture.at(name).at("blocks"));
    const std::vector<std::byte> expected = from_hex(fixture.at(name).at("values"));
    const auto count = static_cast<int64_t>(blocks.size()) / block_bytes(type) * block_values(type);
    ASSERT_EQ(expected.size(), static_cast<size_t>(count) * 4) << name;
    // At every alignment: file formats promise none.
    for (size_t shift = 0; shift < 4; ++shift) {
      std::vector<std::byte> moved(shift);
      moved.insert(moved.end(), blocks.begin(), blocks.end());
      std::vector<float> values(static_cast<size_t>(count));
      dequantise(type, moved.data() + shift, count, values.data());
      EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0) << name;
    }
  }
  EXPECT_EQ(types, fixture.size());
}

// Every bit pattern, against arithmetic on its parts.
TEST(Dequant, ConvertsEveryHalf) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 1023;
    const float value = ops::half_to_float(static_cast<uint16_t>(half));
    const double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) {
      const uint32_t bits = (half & 0x8000) << 16 | 0x7f800000 | mantissa << 13;
      ASSERT_EQ(std::bit_cast<uint32_t>(value), bits) << half;
    } else {
      const double magnitude = exponent == 0
                                   ? std::ldexp(mantissa, -24)
                                   : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
      ASSERT_EQ(value, static_cast<float>(sign * magnitude)) << half;
      ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    }
  }
}

TEST(Dequant, ConvertsEveryEightBitFloat) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    float e4m3, e8m0;
    dequantise(TensorType::kF8_E4M3, &byte, 1, &e4m3);
    dequantise(TensorType::kF8_E8M0, &byte, 1, &e8m0);
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    if ((code & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(e4m3)) << code;
    else
      EXPECT_EQ(e4m3, static_cast<float>(code < 128 ? magnitude : -magnitude)) << code;
    EXPECT_EQ(std::signbit(e4m3), code >= 128) << code;
    if (code == 255)
      EXPECT_TRUE(std::isnan(e8m0));
    else
      EXPECT_EQ(e8m0, static_cast<float>(std::ldexp(1, code - 127))) << code;
  }
}

TEST(Dequant, ConvertsWholeNumbers) {
  const std::byte bytes[] = {std::byte{0xfe}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                             std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  const auto value = [&](TensorType type) {
    float v;
    dequantise(type, bytes, 1, &v);
    return v;
  };
  EXPECT_EQ(value(TensorType::kI8), -2);
  EXPECT_EQ(value(TensorType::kU8), 254);
  EXPECT_EQ(value(TensorType::kI32), -2);
  EXPECT_EQ(value(TensorType::kI64), -2);
}

// Whole tensors of the golden models, by hash; edges.gguf holds extreme scales.
TEST(Dequant, EqualsThePackageOnWholeModels) {
  const std::string models = testing_support::golden_models();
  if (!std::filesystem::exists(models + "/edges.gguf"))
    GTEST_SKIP() << "no models in " << models << "; tools/golden/make_models.py writes them";
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/golden/dequantized.json");
  const nlohmann::json golden = nlohmann::json::parse(file).at("files");
  size_t compared = 0;
  for (const auto& [name, tensors] : golden.items()) {
    GgufMetadata metadata;
    TensorSource source;
    read_gguf(std::make_shared<InputFile>(models + "/" + name), metadata, source);
    for (const auto& [tensor_name, expected] : tensors.items()) {
      const Tensor* t = source.find(tensor_name);
      ASSERT_NE(t, nullptr) << name << " " << tensor_name;
      EXPECT_EQ(tensor_type_name(t->type), expected.at("type").get<std::string>())
          << name << " " << tensor_name;
      ASSERT_EQ(nlohmann::json(t->shape), expected.at("shape")) << name << " " << tensor_name;
      const int64_t n = element_count(t->name, t->shape);
      const int64_t width = t->row_values();
      std::vector<float> values(static_cast<size_t>(n));
      for (int64_t row = 0; row < n / width; ++row) read_row(*t, row, values.data() + row * width);
      EXPECT_EQ(hex_of(sha256(std::as_bytes(std::span(values)))),
                expected.at("sha256").get<std::string>())
          << name << " " << tensor_name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50u);
}

}  // namespace
}  // namespace prefix
