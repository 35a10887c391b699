// Requests that are whole tasks of the text library: rerank, answer, classify.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "results.h"

namespace prefix_cli {

struct TextTask {
  enum class Kind { kRerank, kAnswer, kClassify };
  Kind kind = Kind::kRerank;
  bool one_query = false;              // "query" was given, not "queries"
  std::vector<std::string> queries;    // questions of answer
  std::vector<std::string> documents;  // texts of classify, the context of answer
  std::vector<std::string> labels;
  nlohmann::json options = nlohmann::json::object();  // as prefix_text.h takes them
};

// Whether a line is one, by its field "task".
bool is_text_task(const nlohmann::json& object);
// Throws Failure.
TextTask parse_text_task(const nlohmann::json& object);

struct TextTaskResult {
  size_t rows = 0, columns = 0;
  std::vector<float> values;
  std::vector<std::vector<int64_t>> order;  // of each row; rerank, classify
  std::vector<std::string> answers;
  struct Failed {
    size_t item;
    std::string status, message;
  };
  std::vector<Failed> failed;
  std::vector<size_t> cut;  // items whose prompt was too long
  Usage usage;
};

// The fields of the result that stand between "status" and "usage".
std::string payload(const TextTask& task, const TextTaskResult& result);

}  // namespace prefix_cli
