// Dense layers behind the pooling: what they make of a text's vector,
// whose bits nothing else changes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "embedding_support.h"
#include "support/dense_modules.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;

std::vector<float> random_values(std::mt19937& random, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = std::normal_distribution<float>(0, 0.3f)(random);
  return values;
}

class Dense : public ::testing::Test {
 protected:
  Dense() {
    // The second is wider than a block of rows; sizes are no multiples of the eight sums.
    layers_ = {{"2_Dense", 64, 27, "torch.nn.modules.activation.Tanh",
                random_values(random_, 64 * 27), random_values(random_, 27)},
               {"3_Dense_150",
                27,
                150,
                "torch.nn.modules.activation.ReLU",
                random_values(random_, 27 * 150),
                {}}};
    write_modules(checkpoint_.path(), layers_);
  }
  std::vector<double> wanted(const std::vector<float>& hidden) const {
    std::vector<double> x(hidden.begin(), hidden.end());
    for (const DenseModule& layer : layers_) {
      std::vector<double> y;
      for (int64_t row = 0; row < layer.out; ++row) {
        double sum = layer.bias.empty() ? 0 : double{layer.bias[static_cast<size_t>(row)]};
        for (int64_t i = 0; i < layer.in; ++i)
          sum += layer.weight[static_cast<size_t>(row * layer.in + i)] * x[static_cast<size_t>(i)];
        y.push_back(layer.activation.ends_with("Tanh")   ? std::tanh(sum)
                    : layer.activation.ends_with("ReLU") ? std::max(sum, 0.0)
                                                         : sum);
      }
      x = y;
    }
    return x;
  }

  std::mt19937 random_{5};
  TinyCheckpoint checkpoint_;
  std::vector<DenseModule> layers_;
};

TEST_F(Dense, TheyAreAppliedToThePooledVectorInOrder) {
  const auto engine = make_engine(checkpoint_);
  const std::vector<int32_t> tokens = random_tokens(random_, 40, 131);
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kFirst}) {
    const std::vector<float> hidden = values_of(*engine, embedding(tokens, pooling, false));
    ASSERT_EQ(hidden.size(), 64u);
    const std::vector<float> got = values_of(*engine, embedding(tokens, pooling));
    const std::vector<double> want = wanted(hidden);
    ASSERT_EQ(got.size(), 150u);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << i;

    // The cut and the length come behind them.
    RequestSpec cut = embedding(tokens, pooling);
    cut.dimensions = 100;
    cut.normalize = true;
    const std::vector<float> unit = values_of(*engine, cut);
    ASSERT_EQ(unit.size(), 100u);
    double squares = 0;
    for (size_t i = 0; i < 100; ++i) squares += double{got[i]} * double{got[i]};
    for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(unit[i], got[i] / std::sqrt(squares), 1e-6);
  }
  // Vectors of tokens are not pooled.
  EXPECT_EQ(values_of(*engine, embedding(tokens, Pooling::kTokens)).size(), 40u * 64);
  EXPECT_NE(engine->info_json().find("\"dense_layers\":2,\"dense_width\":150"), std::string::npos);
}

TEST_F(Dense, CompanyThreadsAndTheCacheChangeNoBit) {
  std::vector<RequestSpec> batch;
  for (size_t i = 0; i < 20; ++i)
    batch.push_back(embedding(random_tokens(random_, 1 + i * 7 % 90, 131),
                              i % 2 == 0 ? Pooling::kMean : Pooling::kLast, i % 5 != 4));
  std::vector<std::vector<float>> want;
  const auto alone = make_engine(checkpoint_, {{"threads", "1"}});
  for (const RequestSpec& spec : batch) want.push_back(values_of(*alone, spec));
  for (const char* threads : {"1", "3"}) {
    const auto engine = make_engine(checkpoint_, {{"threads", threads}, {"rows", "129"}});
    for (int pass = 0; pass < 2; ++pass) {
      const auto job = run_all(*engine, batch);
      for (size_t i = 0; i < batch.size(); ++i)
        EXPECT_TRUE(same_bits(job->result(i).values, want[i])) << threads << " " << i;
    }
  }
}

TEST_F(Dense, DimensionsAreThoseOfTheLastLayer) {
  const auto engine = make_engine(checkpoint_);
  RequestSpec good = embedding(random_tokens(random_, 5, 131), Pooling::kMean), bad = good,
              hidden = good;
  good.dimensions = 150;
  bad.dimensions = 151;
  hidden.dense = false;
  hidden.dimensions = 65;
  const auto job = run_all(*engine, {good, bad, hidden});
  EXPECT_EQ(job->result(0).values.size(), 150u) << job->result(0).message;
  EXPECT_EQ(job->result(1).status, Code::kOutOfRange);
  EXPECT_NE(job->result(1).message.find("the model has 150"), std::string::npos);
  EXPECT_NE(job->result(2).message.find("the model has 64"), std::string::npos);
}

// Of modules.json and of a layer's own files.
TEST_F(Dense, WhatDoesNotFitIsNamed) {
  const std::string folder = checkpoint_.path();
  const auto refused = [&](Code code, std::initializer_list<std::string_view> parts) {
    expect_error(code, parts, [&] { make_engine(checkpoint_); });
    write_modules(folder, layers_);
  };
  const auto config = [&](const DenseModule& dense, const nlohmann::json& changes) {
    nlohmann::json json = dense_config(dense);
    json.merge_patch(changes);
    write_file(folder + "/" + dense.folder + "/config.json", json.dump());
  };
  config(layers_[0], {{"in_features", 63}});
  refused(Code::kFormat, {"2_Dense", "63", "64"});
  config(layers_[1], {{"in_features", 26}});
  refused(Code::kFormat, {"3_Dense_150", "26", "27", "the layer before"});
  config(layers_[1], {{"out_features", 151}});
  refused(Code::kFormat, {"linear.weight", "3_Dense_150", "[150, 27]", "[151, 27]"});
  config(layers_[1], {{"bias", true}});
  refused(Code::kFormat, {"3_Dense_150", "linear.bias"});
  config(layers_[0], {{"activation_function", "torch.nn.modules.activation.GELU"}});
  refused(Code::kUnsupportedModel, {"GELU", "Identity, Tanh, ReLU"});
  config(layers_[0], {{"use_residual", true}});
  refused(Code::kUnsupportedModel, {"2_Dense", "use_residual"});
  config(layers_[0], {{"module_input_name", "token_embeddings"}});
  refused(Code::kUnsupportedModel, {"module_input_name", "token_embeddings"});
  std::filesystem::rename(folder + "/2_Dense/model.safetensors",
                          folder + "/2_Dense/pytorch_model.bin");
  refused(Code::kUnsupportedModel, {"2_Dense", "pytorch_model.bin", "model.safetensors"});
  std::filesystem::remove(folder + "/2_Dense/pytorch_model.bin");
  write_modules(folder, layers_);
  EXPECT_NO_THROW(make_engine(checkpoint_));
}

// In front of the pooling they change no vector of a text as it is asked for here;
// behind other modules they would.
TEST_F(Dense, OthersThanThoseBehindThePoolingAreLeftAlone) {
  const auto open = [&](std::initializer_list<const char*> kinds) {
    auto list = nlohmann::json::array();
    for (const char* kind : kinds)
      list.push_back(
          {{"path", "2_Dense"}, {"type", std::string("sentence_transformers.models.") + kind}});
    write_file(checkpoint_.path() + "/modules.json", list.dump());
    write_file(checkpoint_.path() + "/2_Dense/config.json", "{}");
    return make_engine(checkpoint_);
  };
  const auto engine = open({"Transformer", "Dense", "Pooling", "Normalize"});
  EXPECT_EQ(engine->info().dense_layers, 0);
  EXPECT_EQ(values_of(*engine, embedding({1, 2, 3}, Pooling::kLast)).size(), 64u);
  expect_error(Code::kUnsupportedModel, {"\"Dense\"", "behind \"Normalize\""},
               [&] { open({"Transformer", "Pooling", "Normalize", "Dense"}); });
  expect_error(Code::kUnsupportedModel, {"\"LayerNorm\"", "behind \"Pooling\""},
               [&] { open({"Transformer", "Pooling", "LayerNorm"}); });
}

}  // namespace
}  // namespace prefix
