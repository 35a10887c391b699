// bindings/golden_texts.txt in C++: texts in, bits of scores out.
// bindings/make_golden says what its lines mean.
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <optional>
#include <prefix_text.hpp>
#include <sstream>

#include "support/build_folder.h"

namespace {

using Strings = std::vector<std::string>;

struct GoldenTask {
  std::string kind;
  prefix::Options options;
  Strings labels, texts, written;
  std::vector<prefix_token> tokens;
  std::vector<prefix_status> statuses;
  std::vector<uint32_t> bits;
};

template <typename Number>
std::vector<Number> numbers(const std::string& text, std::ios::fmtflags base) {
  std::istringstream in(text);
  in.setf(base, std::ios::basefield);
  std::vector<Number> all;
  for (Number number; in >> number;) all.push_back(number);
  return all;
}

void set(prefix::Options& options, const std::string& setting) {
  const size_t equals = setting.find('=');
  options.set(setting.substr(0, equals), setting.substr(equals + 1));
}

struct GoldenTexts {
  std::string model;
  prefix::Options engine;
  std::vector<GoldenTask> tasks;

  GoldenTexts() {
    std::ifstream file(PREFIX_BINDINGS "/golden_texts.txt");
    for (std::string line; std::getline(file, line);) {
      const size_t space = std::min(line.find(' '), line.size());
      const std::string word = line.substr(0, space);
      if (word.empty() || word == "#") continue;
      const std::string rest = line.substr(std::min(space + 1, line.size()));
      if (word == "model") {
        model = rest;
      } else if (word == "engine") {
        set(engine, rest);
      } else if (word == "task") {
        tasks.emplace_back().kind = rest;
      } else {
        ADD_FAILURE_AT(__FILE__, __LINE__) << word;
      }
      if (word == "task") read_task(file, tasks.back());
    }
  }

  // Up to the empty line behind it.
  static void read_task(std::ifstream& file, GoldenTask& task) {
    for (std::string line; std::getline(file, line) && !line.empty();) {
      const size_t space = line.find(' ');
      const std::string word = line.substr(0, space), rest = line.substr(space + 1);
      if (word == "option") {
        set(task.options, rest);
      } else if (word == "label") {
        task.labels.push_back(rest);
      } else if (word == "text") {
        task.texts.push_back(rest);
      } else if (word == "written") {
        task.written.push_back(rest);
      } else if (word == "tokens") {
        task.tokens = numbers<prefix_token>(rest, std::ios::dec);
      } else if (word == "statuses") {
        task.statuses = numbers<prefix_status>(rest, std::ios::dec);
      } else if (word == "bits") {
        task.bits = numbers<uint32_t>(rest, std::ios::hex);
      } else {
        ADD_FAILURE() << word;
      }
    }
  }
};

TEST(CppText, GoldenTextsBitForBit) {
  const GoldenTexts golden;
  const std::string path =
      prefix::testing_support::build_folder() + "/golden-models/" + golden.model;
  const prefix::Engine engine(path, &golden.engine);
  const prefix::Tokenizer tokenizer(path);
  ASSERT_GE(golden.tasks.size(), 5u);
  for (const GoldenTask& wanted : golden.tasks) {
    SCOPED_TRACE(wanted.kind);
    prefix::Task task(engine, tokenizer, wanted.kind, &wanted.options);
    if (!wanted.labels.empty()) task.set_labels(wanted.labels);
    task.add(wanted.texts);
    EXPECT_EQ(task.tokens(0), wanted.tokens);
    task.submit();
    ASSERT_TRUE(task.wait());
    EXPECT_EQ(task.statuses(), wanted.statuses);
    std::vector<uint32_t> bits;
    for (const float value : task.all_values()) bits.push_back(std::bit_cast<uint32_t>(value));
    EXPECT_EQ(bits, wanted.bits);
    for (size_t item = 0; item < wanted.written.size(); ++item)
      EXPECT_EQ(task.text(item), wanted.written[item]);
    EXPECT_NE(wanted.bits.empty(), wanted.written.empty());
  }
}

}  // namespace
