// Requests that are whole tasks of the text library: rerank, answer, classify, generate with
// prompts, chat.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "results.h"

namespace prefix_cli {

// What a line asks for:
//
//   items               firsts           seconds          a row of the result is
//   rerank, queries     the queries      the documents    a query
//   rerank, pairs       (in firsts: query, document, query, ...; one row)
//   answer              the context      the questions
//   classify            the texts                         a text
//   generate, chat      the prompts
struct TextTask {
  std::string kind;
  bool is_product = false;  // every second text with every first one
  bool is_single = false;   // "query" and "messages", not "queries" and "conversations"
  std::vector<std::string> firsts, seconds;
  std::vector<std::string> labels;  // of classify; empty: those of the model's classification head
  nlohmann::ordered_json options =
      nlohmann::ordered_json::object();  // as prefix_options_set_json takes them

  bool has_order() const { return kind == "classify" || (kind == "rerank" && is_product); }
  // Of one that writes texts.
  size_t items() const { return is_product ? firsts.size() * seconds.size() : firsts.size(); }
  bool writes_text() const { return kind != "rerank" && kind != "classify"; }
};

// Whether a line is one, by its field "task".
bool is_text_task(const nlohmann::ordered_json& object);
// Throws Failure.
TextTask parse_text_task(const nlohmann::ordered_json& object);

struct TextTaskResult {
  size_t rows = 0, columns = 0;  // of the values
  std::vector<float> values;
  std::string labels = "[]";                // of the columns as JSON, where the line names none
  std::vector<std::vector<int64_t>> order;  // of each row
  std::vector<std::string> texts;
  std::vector<std::string> finish;  // of each text
  // Of each text, where it draws from chance without a seed of its own, so that only this one can
  // repeat it.
  std::vector<int64_t> seeds;
  // The tokens of a text; top where the likeliest ones of each place were asked for.
  struct Scored {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    std::vector<std::vector<TopToken>> top;
  };
  std::vector<Scored> scored;  // of each text, where log-probabilities were asked for
  bool has_seeds = false, has_scored = false, has_top = false;
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
