#include "text_task.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common.h"

namespace prefix_cli {
namespace {

using Json = nlohmann::json;
using Kind = TextTask::Kind;

struct Fields {
  std::string_view task;
  Kind kind;
  std::string_view queries, documents;  // "" = none
};
constexpr std::array kTasks = {
    Fields{"rerank", Kind::kRerank, "queries", "documents"},
    Fields{"answer", Kind::kAnswer, "questions", "context"},
    Fields{"classify", Kind::kClassify, "", "texts"},
};

// Options of the text library under the same name; it checks which task has which.
constexpr std::array<std::string_view, 6> kTaskOptions = {
    "recipe", "instruction", "truncate", "max_prompt_tokens", "raw", "top_n"};
// Options of the engine's requests.
constexpr std::array<std::string_view, 9> kRequestOptions = {
    "namespace", "max_tokens", "temperature", "top_k",      "top_p",
    "min_p",     "seed",       "priority",    "deadline_ms"};

const Fields* find_task(const Json& object) {
  const auto task = object.find("task");
  if (task == object.end() || !task->is_string()) return nullptr;
  const auto is_it = [&](const Fields& f) { return f.task == task->get_ref<const std::string&>(); };
  const auto* found = std::find_if(kTasks.begin(), kTasks.end(), is_it);
  return found == kTasks.end() ? nullptr : found;
}

std::string text(std::string_view field, const Json& value) {
  if (!value.is_string()) fail(field, " is not a string");
  return value.get<std::string>();
}

std::vector<std::string> texts(std::string_view field, const Json& value) {
  if (!value.is_array()) fail(field, " is not a list of strings");
  std::vector<std::string> list;
  for (const Json& item : value) list.push_back(text(field, item));
  return list;
}

template <typename List>
bool holds(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string numbers(const float* values, size_t n) {
  std::string out = "[";
  for (size_t i = 0; i < n; ++i) out += cat(i ? "," : "", float_text(values[i]));
  return out + "]";
}

}  // namespace

bool is_text_task(const Json& object) { return find_task(object) != nullptr; }

TextTask parse_text_task(const Json& object) {
  const Fields& fields = *find_task(object);
  TextTask task;
  task.kind = fields.kind;
  for (const auto& [key, value] : object.items()) {
    if (key == "id" || key == "task") continue;
    if (!fields.queries.empty() && key == fields.queries) {
      task.queries = texts(key, value);
    } else if (key == "query" && task.kind == Kind::kRerank) {
      task.queries = {text(key, value)};
      task.one_query = true;
    } else if (key == fields.documents) {
      if (task.kind == Kind::kAnswer)
        task.documents = {text(key, value)};
      else
        task.documents = texts(key, value);
    } else if (key == "labels" && task.kind == Kind::kClassify) {
      task.labels = texts(key, value);
    } else if (holds(kTaskOptions, key)) {
      task.options[key] = value;
    } else if (holds(kRequestOptions, key)) {
      task.options["request"][key] = value;
    } else {
      fail("task ", fields.task, " has no field ", shown(key, 80));
    }
  }
  if (!object.contains(fields.documents)) fail("task ", fields.task, " needs ", fields.documents);
  const bool has_queries = object.contains(fields.queries);
  if (task.one_query == has_queries && task.kind == Kind::kRerank)
    fail("task rerank needs one of query and queries");
  if (task.kind == Kind::kAnswer && !has_queries) fail("task answer needs questions");
  if (task.kind == Kind::kClassify && task.labels.empty()) fail("task classify needs labels");
  return task;
}

std::string payload(const TextTask& task, const TextTaskResult& r) {
  std::string out;
  if (task.kind == Kind::kAnswer) {
    out += ",\"answers\":[";
    for (size_t i = 0; i < r.answers.size(); ++i) out += (i ? "," : "") + quoted(r.answers[i]);
    out += "]";
  } else {
    std::string scores, order;
    for (size_t row = 0; row < r.rows; ++row) {
      scores += (row ? "," : "") + numbers(r.values.data() + row * r.columns, r.columns);
      order += (row ? "," : "") + Json(r.order[row]).dump();
    }
    const bool nested = !task.one_query;
    out += cat(",\"scores\":", nested ? "[" : "", scores, nested ? "]" : "");
    out += cat(",\"order\":", nested ? "[" : "", order, nested ? "]" : "");
  }
  if (!r.cut.empty()) out += ",\"cut\":" + Json(r.cut).dump();
  if (!r.failed.empty()) {
    out += ",\"failed\":[";
    for (size_t i = 0; i < r.failed.size(); ++i)
      out += cat(i ? "," : "", "{\"item\":", r.failed[i].item,
                 ",\"status\":", quoted(r.failed[i].status),
                 ",\"message\":", quoted(r.failed[i].message), "}");
    out += "]";
  }
  return out;
}

}  // namespace prefix_cli
