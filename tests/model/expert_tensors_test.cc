// Tensors of models with routed experts: how those of all experts are read,
// what is refused of them, and what is said about them.
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/copied_model.h"
#include "model/load/expert_rows.h"
#include "model/model_info.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace prefix {
namespace {

using testing_support::Copied;
using testing_support::expect_error;
using testing_support::golden_models;

// A tensor whose element i is i, behind 8 bytes of something else.
struct Counted {
  explicit Counted(std::vector<int64_t> shape) {
    tensor.shape = std::move(shape);
    std::vector<std::byte> bytes(8);
    for (int64_t i = 0; i < element_count("counted", tensor.shape); ++i) {
      const auto value = static_cast<float>(i);
      const auto* const at = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), at, at + sizeof value);
    }
    tensor.bytes = bytes.size() - 8;
    file = std::make_unique<InputFile>("counted", std::move(bytes));
    tensor.file = file.get();
    tensor.offset = 8;
  }
  Tensor tensor;
  std::unique_ptr<InputFile> file;
};

std::vector<float> row_of(const ExpertRows& rows, int64_t row, size_t columns) {
  std::vector<float> values(columns);
  EXPECT_EQ(rows.type(row), TensorType::kF32);
  rows.read(row, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(ExpertRows, AreRowsOfOneExpert) {
  using Row = std::vector<float>;
  const Counted all({3, 4, 2});  // 3 experts of 4 rows
  EXPECT_EQ(row_of({all.tensor, 0, 0, 1, nullptr}, 0, 2), (Row{0, 1}));
  EXPECT_EQ(row_of({all.tensor, 2, 0, 1, nullptr}, 3, 2), (Row{22, 23}));
  // Gate and up take turns.
  EXPECT_EQ(row_of({all.tensor, 1, 0, 2, nullptr}, 1, 2), (Row{12, 13}));
  EXPECT_EQ(row_of({all.tensor, 1, 1, 2, nullptr}, 1, 2), (Row{14, 15}));
}

TEST(ExpertRows, AreColumnsOfOneExpertWhereTheTensorIsTransposed) {
  using Row = std::vector<float>;
  const Counted all({3, 2, 4});  // 3 experts of 4 rows
  const auto strips = std::make_shared<Strips>();
  EXPECT_EQ(row_of({all.tensor, 0, 0, 1, strips}, 1, 2), (Row{1, 5}));
  EXPECT_EQ(row_of({all.tensor, 2, 0, 1, strips}, 3, 2), (Row{19, 23}));
  EXPECT_EQ(row_of({all.tensor, 1, 0, 2, strips}, 1, 2), (Row{10, 14}));
  EXPECT_EQ(row_of({all.tensor, 1, 1, 2, strips}, 1, 2), (Row{11, 15}));
}

void refused(const std::string& model, const char* file, const std::string& from,
             const std::string& to, std::initializer_list<std::string_view> parts) {
  Copied copied(model);
  copied.check();
  copied.replace(file, from, to);
  expect_error(Code::kFormat, parts, [&] { copied.check(); });
}

TEST(ExpertTensors, NamesOneThatIsMissingExtraOrMisshaped) {
  for (const char* name :
       {"self_attn.sinks", "self_attn.o_proj.bias", "mlp.router.weight", "mlp.router.bias",
        "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias", "mlp.experts.down_proj",
        "mlp.experts.down_proj_bias"}) {
    const std::string whole = std::string("model.layers.1.") + name;
    std::string other = whole;
    other.back() = 'z';
    refused("gpt-oss-base", "model.safetensors", "\"" + whole + "\"", "\"" + other + "\"",
            {whole, "missing"});
  }
  const std::string scales = "model.layers.1.mlp.experts.down_proj_scales";
  refused("gpt-oss-mxfp4", "model.safetensors", "\"" + scales, "\"nodel" + scales.substr(5),
          {scales, "missing"});
  const char* config = "config.json";
  refused("gpt-oss-list", config, "\"attention_bias\": false", "\"attention_bias\":  true",
          {"self_attn.q_proj.bias", "missing"});
}

TEST(ExpertTensors, NamesWrongShapes) {
  const char* config = "config.json";
  refused("gpt-oss-base", config, "\"intermediate_size\": 48", "\"intermediate_size\": 47",
          {"mlp.experts.gate_up_proj_bias", "[8, 96]", "[8, 94]"});
  refused("gpt-oss-base", config, "\"num_local_experts\": 8", "\"num_local_experts\": 7",
          {"mlp.router.weight", "[8, 96]", "[7, 96]"});
  // Plain matrices lie transposed.
  refused("gpt-oss-one", "model.safetensors", "[33,56,144]", "[33,144,56]",
          {"model.layers.0.mlp.experts.gate_up_proj", "[33, 144, 56]", "[33, 56, 144]"});
}

TEST(ExpertTensors, AreInTheInformationAboutAModel) {
  for (const char* suffix : {"", ".gguf"}) {
    const Json info = Json::parse(model_info_json(golden_models() + "/gpt-oss-mxfp4" + suffix));
    EXPECT_EQ(info.at("model_type"), "gpt_oss");
    EXPECT_EQ(info.at("sizes").at("experts"), 6);
    bool found = false;
    for (const Json& group : info.at("tensors")) {
      EXPECT_NE(group.at("group"), "other");
      if (group.at("group") != "experts" || group.at("dtype") != "MXFP4") continue;
      found = true;
      // Two layers of 6 experts of 64 x 64, 17 bytes for 32 numbers.
      EXPECT_EQ(group.at("parameters"), 2 * 6 * 3 * 64 * 64);
      EXPECT_EQ(group.at("bytes"), 2 * 6 * 3 * 64 * 64 / 32 * 17);
    }
    EXPECT_TRUE(found) << suffix;
  }
}

}  // namespace
}  // namespace prefix
