// "quantization_config": what is read of each method, and what is refused by name.
#include "model/config/quantization_config.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

QuantConfig read(const Json& config) {
  return quant_config_from_json({{"quantization_config", config}});
}
void expect_unsupported(const Json& config, std::initializer_list<std::string_view> parts) {
  expect_error(Code::kUnsupportedModel, parts, [&] { read(config); });
}
void expect_bad(const Json& config, std::initializer_list<std::string_view> parts) {
  expect_error(Code::kFormat, parts, [&] { read(config); });
}
Json with(Json base, const Json& changes) {
  base.update(changes);
  return base;
}

const Json kAwq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemm"}};
const Json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
const Json kFp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 64}}};

Json compressed(const Json& weights, const Json& more = {}) {
  Json json = {{"quant_method", "compressed-tensors"},
               {"format", "pack-quantized"},
               {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  json.update(more.is_null() ? Json::object() : more);
  return json;
}
const Json kInt4 = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 128}};

TEST(QuantizationConfig, IsAbsent) {
  EXPECT_EQ(quant_config_from_json(Json::object()).method, QuantMethod::kNone);
  EXPECT_EQ(read(nullptr).method, QuantMethod::kNone);
  expect_bad("x", {"quantization_config", "\"x\"", "object"});
}

TEST(QuantizationConfig, NamesTheMethods) {
  for (const Json& method : {Json("bitsandbytes"), Json("auto-round"), Json("")})
    expect_unsupported({{"quant_method", method}}, {method.get<std::string>(),
                                                    "\"compressed-tensors\", \"awq\", \"gptq\", "
                                                    "\"fp8\", \"mxfp4\"",
                                                    "GGUF"});
  expect_unsupported(Json::object(), {"quant_method is missing", "\"awq\""});
  for (const auto& [json, method] :
       {std::pair(kAwq, QuantMethod::kAwq), std::pair(kGptq, QuantMethod::kGptq),
        std::pair(kFp8, QuantMethod::kFp8),
        std::pair(compressed(kInt4), QuantMethod::kCompressedTensors),
        std::pair(Json{{"quant_method", "mxfp4"}}, QuantMethod::kMxfp4)}) {
    EXPECT_EQ(read(json).method, method);
    EXPECT_EQ(quant_method_name(method), json.at("quant_method").get<std::string>());
  }
  Json older = {{"compression_config", compressed(kInt4)}};
  older["compression_config"].erase("quant_method");
  EXPECT_EQ(quant_config_from_json(older).method, QuantMethod::kCompressedTensors);
}

TEST(QuantizationConfig, ReadsAwq) {
  const QuantConfig c = read(with(kAwq, {{"modules_to_not_convert", {"lm_head", "re:.*", "a.b"}}}));
  ASSERT_EQ(c.schemes.size(), 1u);
  EXPECT_EQ(c.schemes[0].bits, 4);
  EXPECT_EQ(c.schemes[0].group, 128);
  EXPECT_TRUE(c.schemes[0].has_zeros);
  EXPECT_EQ(c.plain, (std::vector<std::string>{"lm_head", "a.b"}));
  EXPECT_EQ(read({{"quant_method", "awq"}, {"w_bit", 4}, {"q_group_size", 64}, {"version", "GEMM"}})
                .schemes[0]
                .group,
            64);
  expect_unsupported(with(kAwq, {{"version", "gemv"}}), {"version \"gemv\"", "\"gemm\""});
  expect_unsupported(with(kAwq, {{"bits", 8}}), {"bits is 8", "with 4"});
  expect_unsupported(with(kAwq, {{"zero_point", false}}), {"zero_point is false"});
  expect_bad(with(kAwq, {{"group_size", 0}}), {"group_size is 0"});
  expect_bad(with(kAwq, {{"group_size", -2}}), {"group_size", "-2"});
  expect_bad(with(kAwq, {{"modules_to_not_convert", "lm_head"}}), {"modules_to_not_convert"});
  expect_bad(with(kAwq, {{"modules_to_not_convert", {1}}}), {"modules_to_not_convert", "1"});
}

TEST(QuantizationConfig, ReadsGptq) {
  EXPECT_TRUE(read(kGptq).zeros_less_one);
  EXPECT_FALSE(read(with(kGptq, {{"checkpoint_format", "gptq_v2"}})).zeros_less_one);
  EXPECT_EQ(read(with(kGptq, {{"bits", 8}})).schemes[0].bits, 8);
  EXPECT_EQ(read(with(kGptq, {{"group_size", -1}})).schemes[0].scales, QuantScheme::Scales::kRow);
  EXPECT_NO_THROW(read(with(kGptq, {{"dynamic", {{"-:.*gate$", Json::object()}}}})));
  EXPECT_NO_THROW(read(with(kGptq, {{"dynamic", nullptr}, {"is_marlin_format", false}})));
  expect_unsupported(with(kGptq, {{"bits", 3}}), {"bits is 3", "4 and 8"});
  expect_unsupported(with(kGptq, {{"checkpoint_format", "marlin"}}),
                     {"checkpoint_format \"marlin\"", "\"gptq\", \"gptq_v2\""});
  expect_unsupported(with(kGptq, {{"is_marlin_format", true}}), {"is_marlin_format"});
  expect_unsupported(with(kGptq, {{"pack_dtype", "int8"}}), {"pack_dtype \"int8\"", "int32"});
  expect_unsupported(with(kGptq, {{"dynamic", {{"+:.*mlp", {{"bits", 8}}}}}}),
                     {"dynamic", "+:.*mlp"});
}

TEST(QuantizationConfig, ReadsFp8) {
  const QuantScheme s = read(kFp8).schemes.at(0);
  EXPECT_EQ(s.scales, QuantScheme::Scales::kBlock);
  EXPECT_EQ(s.block_rows, 128);
  EXPECT_EQ(s.block_columns, 64);
  EXPECT_TRUE(read({{"quant_method", "fp8"}}).schemes.empty());
  expect_unsupported(with(kFp8, {{"fmt", "e5m2"}}), {"fmt \"e5m2\"", "e4m3"});
  expect_bad(with(kFp8, {{"weight_block_size", {128}}}), {"weight_block_size", "[rows, columns]"});
  expect_bad(with(kFp8, {{"weight_block_size", {0, 128}}}), {"weight_block_size", "0"});
}

TEST(QuantizationConfig, ReadsCompressedTensors) {
  const QuantConfig c = read(compressed(kInt4, {{"ignore", {"lm_head"}}}));
  ASSERT_EQ(c.schemes.size(), 1u);
  EXPECT_EQ(c.schemes[0].bits, 4);
  EXPECT_EQ(c.schemes[0].group, 128);
  EXPECT_FALSE(c.schemes[0].has_zeros);
  EXPECT_EQ(c.plain, std::vector<std::string>{"lm_head"});
  EXPECT_TRUE(read(compressed(with(kInt4, {{"symmetric", false}}))).schemes[0].has_zeros);
  EXPECT_NO_THROW(read(compressed(
      kInt4, {{"sparsity_config", Json::object()}, {"transform_config", Json::object()}})));
  expect_unsupported(compressed(with(kInt4, {{"num_bits", 3}})),
                     {"num_bits 3", "int with 4 and 8"});
  expect_unsupported(compressed(with(kInt4, {{"type", "float"}})), {"float", "num_bits 4"});
  expect_unsupported(compressed(with(kInt4, {{"strategy", "tensor_group"}})),
                     {"strategy \"tensor_group\"", "\"block\""});
  expect_unsupported(compressed(with(kInt4, {{"dynamic", true}})), {"dynamic"});
  expect_unsupported(compressed(kInt4, {{"format", "nvfp4-pack-quantized"}}),
                     {"format \"nvfp4-pack-quantized\"", "\"pack-quantized\""});
  expect_unsupported(compressed(kInt4, {{"format", "marlin-24"}}), {"marlin-24"});
  expect_unsupported(compressed(kInt4, {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
                     {"sparse-24-bitmask", "\"dense\""});
  expect_unsupported(compressed(kInt4, {{"transform_config", {{"config_groups", 1}}}}),
                     {"transform_config"});
  expect_unsupported(compressed(nullptr), {"weights"});
  expect_bad(compressed(kInt4, {{"config_groups", Json::object()}}), {"config_groups"});
  expect_bad(compressed(with(kInt4, {{"strategy", "block"}})), {"block_structure"});
  const QuantConfig old =
      read(compressed(with(kInt4, {{"strategy", "block"}, {"block_structure", "128x64"}})));
  EXPECT_EQ(std::pair(old.schemes[0].block_rows, old.schemes[0].block_columns),
            (std::pair<int64_t, int64_t>(128, 64)));
  for (const char* sides : {"128", "128x", "x128", "128x-1", "1x2x3", "128 x 128", "12x0"})
    expect_bad(compressed(with(kInt4, {{"strategy", "block"}, {"block_structure", sides}})),
               {"block_structure"});
  expect_bad(compressed(with(kInt4, {{"group_size", 0}})), {"group_size is 0"});
}

}  // namespace
}  // namespace prefix
