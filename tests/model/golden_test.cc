// The tiny models of every architecture and block type against Hugging Face transformers.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::best_of;
using testing_support::Distance;
using testing_support::Golden;
using testing_support::golden_folder;
using testing_support::golden_models;
using testing_support::make_options;
using testing_support::OptionList;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder() + "/logits"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The requests of one prompt: logits at each stored position, log-probs, embedding, greedy.
std::vector<RequestSpec> requests_of(const nlohmann::json& prompt, int32_t vocab) {
  const auto tokens = prompt.at("tokens").get<std::vector<int32_t>>();
  std::vector<RequestSpec> list;
  for (size_t position : prompt.at("logit_positions").get<std::vector<size_t>>()) {
    RequestSpec r;
    r.task = Task::kLogits;
    r.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(position) + 1);
    r.logit_ids.resize(static_cast<size_t>(vocab));
    std::iota(r.logit_ids.begin(), r.logit_ids.end(), 0);
    list.push_back(std::move(r));
  }
  RequestSpec embed;
  embed.task = Task::kEmbed;
  embed.normalize = false;
  embed.tokens = tokens;
  list.push_back(embed);
  if (prompt.contains("greedy")) {
    RequestSpec greedy;
    greedy.tokens = tokens;
    greedy.sampling.max_tokens = static_cast<int32_t>(prompt.at("greedy").size());
    greedy.sampling.ignore_eos = true;
    list.push_back(greedy);
  }
  if (tokens.size() > 1) {
    RequestSpec span;
    span.task = Task::kLogprobs;
    span.tokens = tokens;
    list.push_back(span);
  }
  return list;
}

// Logits nearer to each other than this may change places where products round to bf16, which moves
// logits by 0.01 and more: there is no best token then.
constexpr float kNearTie = 0.01f;

bool is_near_tie(const float* logits, size_t n) {
  const size_t best = best_of(logits, n);
  for (size_t i = 0; i < n; ++i)
    if (i != best && logits[best] - logits[i] < kNearTie) return true;
  return false;
}

struct Figures {
  Distance logits, hidden, log_probs;
  std::vector<double> of_positions;  // relative distances of logits
  int positions = 0, best_kept = 0;
  int clear = 0, clear_kept = 0;  // of these, without near-ties
  int greedy = 0, greedy_kept = 0;
};

void compare(const Golden& golden, Engine& engine, Figures& f) {
  const auto vocab = golden.index.at("vocab").get<int32_t>();
  const auto hidden = golden.index.at("hidden").get<size_t>();
  const std::string scaling = golden.index.at("model").get<std::string>();
  for (const auto& prompt : golden.index.at("prompts")) {
    const size_t n = prompt.at("tokens").size();
    // A longrope model rotates a prefix by its own length, so its prefixes are other sequences.
    const bool longrope = scaling == "phi3-longrope" || scaling == "phi3-five";
    const auto job = engine.submit(requests_of(prompt, vocab));
    job->wait(-1);
    size_t row = 0;
    for (size_t i = 0; i < job->count(); ++i) {
      const RequestSpec& spec = job->spec(i);
      const RequestResult& r = job->result(i);
      ASSERT_EQ(r.status, Code::kOk) << r.message;
      switch (spec.task) {
        case Task::kLogits: {
          const float* expected =
              golden.at(prompt, "logits_at") + row++ * static_cast<size_t>(vocab);
          if (longrope && spec.tokens.size() <= 32 && n > 32) break;
          f.logits.add(r.values.data(), expected, static_cast<size_t>(vocab));
          Distance here;
          here.add(r.values.data(), expected, static_cast<size_t>(vocab));
          f.of_positions.push_back(here.relative());
          const bool kept = best_of(r.values.data(), static_cast<size_t>(vocab)) ==
                            best_of(expected, static_cast<size_t>(vocab));
          const bool clear = !is_near_tie(expected, static_cast<size_t>(vocab));
          ++f.positions;
          f.best_kept += kept;
          f.clear += clear;
          f.clear_kept += clear && kept;
          break;
        }
        case Task::kEmbed:
          f.hidden.add(r.values.data(), golden.at(prompt, "hidden_at"), hidden);
          break;
        case Task::kLogprobs:
          f.log_probs.add(r.values.data(), golden.at(prompt, "log_probs_at"), n - 1);
          break;
        default: {
          const auto expected = prompt.at("greedy").get<std::vector<int32_t>>();
          size_t same = 0;
          while (same < expected.size() && r.tokens[same] == expected[same]) ++same;
          f.greedy += static_cast<int>(expected.size());
          f.greedy_kept += static_cast<int>(same);
        }
      }
    }
  }
}

// Null, and why, where the device of the test does not run such a model and says so.
std::shared_ptr<Engine> open_golden(const std::string& path, OptionList options,
                                    std::string* refused) {
  try {
    return Engine::create(path, make_options(options), nullptr);
  } catch (const Error& e) {
    *refused = e.message();
    if (e.code() != Code::kUnsupportedDevice ||
        refused->find("such models run on device \"cpu\" only") == std::string::npos)
      throw;
    return nullptr;
  }
}

// An error in bf16 may be this many times that of transformers.
constexpr double kOfTheirs = 1.2;

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(golden_models()))
        << "write the models first: tools/golden/make_models.py " << golden_models();
  }
  // Nothing where the device refuses the model.
  std::optional<Figures> run(const std::string& dtype) {
    const Golden golden(golden_folder() + "/logits/" + GetParam());
    const std::string path = golden_models() + "/" + golden.index.at("path").get<std::string>();
    const auto engine = open_golden(path, {{"dtype", dtype}}, &refused_);
    if (!engine) return std::nullopt;
    Figures f;
    compare(golden, *engine, f);
    routed_ = golden.index.value("routed", false);
    theirs_ = golden.index.at("bf16").get<std::map<std::string, double>>();
    RecordProperty("max_abs", std::to_string(f.logits.max_abs));
    RecordProperty("relative", std::to_string(f.logits.relative()));
    return f;
  }

  std::string refused_;
  bool routed_ = false;                   // to experts
  std::map<std::string, double> theirs_;  // errors of bfloat16 in transformers
};

TEST_P(GoldenModel, F32AgreesTo1e4WithTheSameGreedyTokens) {
  const std::optional<Figures> figures = run("f32");
  if (HasFatalFailure()) return;
  if (!figures) GTEST_SKIP() << refused_;
  const Figures& f = *figures;
  EXPECT_LE(f.logits.max_abs, 1e-4);
  EXPECT_LE(f.hidden.max_abs, 1e-4);
  EXPECT_LE(f.log_probs.max_abs, 1e-4);
  EXPECT_EQ(f.best_kept, f.positions);
  EXPECT_EQ(f.greedy_kept, f.greedy);
  EXPECT_GT(f.positions, 0);
}

TEST_P(GoldenModel, Bf16IsAsNearAsThatOfTransformers) {
  const std::optional<Figures> figures = run("bf16");
  if (HasFatalFailure()) return;
  if (!figures) GTEST_SKIP() << refused_;
  const Figures& f = *figures;
  std::vector<double> sorted = f.of_positions;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  std::printf("%s: bf16 relative to that of transformers: logits %.2f, median %.2f, hidden %.2f\n",
              GetParam().c_str(), f.logits.relative() / theirs_.at("logits"),
              median / theirs_.at("median"), f.hidden.relative() / theirs_.at("hidden"));
  EXPECT_LE(median, kOfTheirs * theirs_.at("median"));
  // Where two experts are about as good, a rounded score takes the other one. Few positions are so;
  // what comes after one sees it through attention only.
  if (routed_) return;
  EXPECT_LE(f.logits.relative(), kOfTheirs * theirs_.at("logits"));
  EXPECT_LE(f.hidden.relative(), kOfTheirs * theirs_.at("hidden"));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, testing::ValuesIn(model_names()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

TEST(Golden, Bf16KeepsTheBestTokenAt99PercentOfAllClearPositions) {
  int positions = 0, kept = 0;
  for (const std::string& name : model_names()) {
    const Golden golden(golden_folder() + "/logits/" + name);
    const std::string path = golden_models() + "/" + golden.index.at("path").get<std::string>();
    if (golden.index.value("routed", false)) continue;
    std::string refused;
    const auto engine = open_golden(path, {}, &refused);
    if (!engine) continue;
    Figures f;
    compare(golden, *engine, f);
    positions += f.clear;
    kept += f.clear_kept;
  }
  std::printf("best token kept at %d of %d positions\n", kept, positions);
  EXPECT_GE(kept, 0.99 * positions);
}

}  // namespace
}  // namespace prefix
