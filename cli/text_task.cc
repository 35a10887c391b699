#include "text_task.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common.h"
#include "json_in.h"
#include "logit_bias.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Options of the library under the same name; it checks which task has which.
constexpr std::array<std::string_view, 32> kOptions = {
    "recipe",      "instruction", "truncate",   "max_prompt_tokens",  "raw",
    "top_n",       "stop",        "namespace",  "frequency_penalty",  "max_tokens",
    "temperature", "top_k",       "top_p",      "presence_penalty",   "min_p",
    "seed",        "ignore_eos",  "min_tokens", "repetition_penalty", "stop_tokens",
    "priority",    "deadline_ms", "adapter",    "allowed_tokens",     "logit_bias",
    "json_schema", "regex",       "grammar",    "draft_tokens",       "samples",
    "logprobs",    "top_logprobs"};

std::string_view task_of(const OrderedJson& object) {
  const auto task = object.find("task");
  if (task == object.end()) return object.contains("prompts") ? "generate" : "";
  if (!task->is_string()) return {};
  return task->get_ref<const std::string&>();
}

std::string text(std::string_view field, const OrderedJson& value) {
  if (!value.is_string()) fail(field, " = ", json_shown(value), " is not a string");
  return value.get<std::string>();
}

std::vector<std::string> texts(std::string_view field, const OrderedJson& value) {
  if (!value.is_array()) fail(field, " = ", json_shown(value), " is not a list of strings");
  std::vector<std::string> list;
  for (const OrderedJson& item : value)
    list.push_back(text(cat(field, "[", list.size(), "]"), item));
  return list;
}

// One after the other, as the library takes items of two texts.
std::vector<std::string> pairs(const OrderedJson& value) {
  std::vector<std::string> list;
  if (!value.is_array()) fail("pairs = ", json_shown(value), " is not a list of [query, document]");
  for (const OrderedJson& pair : value) {
    const std::string place = cat("pairs[", list.size() / 2, "]");
    if (!pair.is_array() || pair.size() != 2)
      fail(place, " = ", json_shown(pair), " is not [query, document]");
    for (const OrderedJson& item : pair) list.push_back(text(place, item));
  }
  return list;
}

// Messages go to the library as JSON, alone or in an object with what the template is to know
// ("tools", "variables"); it reads what the model's template wants.
std::string messages(std::string_view field, const OrderedJson& value) {
  if (!value.is_array() && !value.is_object())
    fail(field, " = ", json_shown(value),
         " is neither a list of messages nor an object of \"messages\" and options");
  return value.dump();
}

// A line on its way to a task: each field is taken once.
class Fields {
 public:
  explicit Fields(const OrderedJson& object) : left_(object) {
    left_.erase("id");
    left_.erase("task");
  }
  bool has(std::string_view field) const { return left_.contains(field); }
  OrderedJson take(std::string_view field) {
    OrderedJson value = std::move(left_[field]);
    left_.erase(left_.find(field));
    return value;
  }
  OrderedJson need(std::string_view task, std::string_view field) {
    if (!has(field)) fail("task ", task, " needs ", field);
    return take(field);
  }
  // The one that is there; needs exactly one.
  std::string_view choose(std::string_view task, std::initializer_list<std::string_view> fields) {
    std::string_view found;
    std::string names;
    int given = 0;
    for (const std::string_view field : fields) {
      names += cat(names.empty() ? "" : field == *(fields.end() - 1) ? " and " : ", ", field);
      if (!has(field)) continue;
      found = field;
      ++given;
    }
    if (given != 1) fail("task ", task, " needs one of ", names);
    return found;
  }
  // What is left must be options.
  OrderedJson options(std::string_view task) {
    for (const auto& [key, value] : left_.items())
      if (std::find(kOptions.begin(), kOptions.end(), key) == kOptions.end())
        fail("task ", task, " has no field ", shown(key, 80));
    if (has("logit_bias")) left_["logit_bias"] = logit_bias_text(left_["logit_bias"]);
    // A schema is JSON within the line, or the text of it.
    if (has("json_schema") && !left_["json_schema"].is_string())
      left_["json_schema"] = left_["json_schema"].dump();
    return std::move(left_);
  }

 private:
  OrderedJson left_;
};

void read_rerank(Fields& fields, TextTask& task) {
  const std::string_view given = fields.choose(task.kind, {"query", "queries", "pairs"});
  task.is_single = given != "queries";
  task.is_product = given != "pairs";
  if (given == "pairs") {
    task.firsts = pairs(fields.take(given));
    return;
  }
  if (given == "query")
    task.firsts = {text(given, fields.take(given))};
  else
    task.firsts = texts(given, fields.take(given));
  task.seconds = texts("documents", fields.need(task.kind, "documents"));
}

void read_answer(Fields& fields, TextTask& task) {
  task.is_product = true;
  task.firsts = {text("context", fields.need(task.kind, "context"))};
  task.seconds = texts("questions", fields.need(task.kind, "questions"));
}

void read_classify(Fields& fields, TextTask& task) {
  task.firsts = texts("texts", fields.need(task.kind, "texts"));
  if (!fields.has("labels")) return;  // those of the model's classification head
  task.labels = texts("labels", fields.take("labels"));
  if (task.labels.empty()) fail("labels is empty");
}

void read_generate(Fields& fields, TextTask& task) {
  task.firsts = texts("prompts", fields.take("prompts"));
}

void read_chat(Fields& fields, TextTask& task) {
  const std::string_view given = fields.choose(task.kind, {"messages", "conversations"});
  task.is_single = given == "messages";
  const OrderedJson value = fields.take(given);
  if (task.is_single) {
    task.firsts = {messages(given, value)};
    return;
  }
  if (!value.is_array()) fail(given, " = ", json_shown(value), " is not a list of conversations");
  for (const OrderedJson& item : value)
    task.firsts.push_back(messages(cat(given, "[", task.firsts.size(), "]"), item));
}

struct Reader {
  std::string_view task;
  void (*read)(Fields&, TextTask&);
};
constexpr std::array kReaders = {
    Reader{"rerank", read_rerank},     Reader{"answer", read_answer},
    Reader{"classify", read_classify}, Reader{"generate", read_generate},
    Reader{"chat", read_chat},
};

const Reader* find_reader(const OrderedJson& object) {
  const std::string_view task = task_of(object);
  // With one prompt it is a request of the engine.
  if (task == "generate" && !object.contains("prompts")) return nullptr;
  const auto* found = std::find_if(kReaders.begin(), kReaders.end(),
                                   [&](const Reader& reader) { return reader.task == task; });
  return found == kReaders.end() ? nullptr : found;
}

std::string numbers(const float* values, size_t n) {
  std::string out = "[";
  for (size_t i = 0; i < n; ++i) out += cat(i ? "," : "", float_text(values[i]));
  return out + "]";
}

// ,"name":[a,b,...], or ,"name":a of a single row.
template <typename Row>
std::string rows(std::string_view name, size_t count, bool is_single, const Row& row) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += cat(i ? "," : "", row(i));
  return cat(",\"", name, "\":", is_single ? "" : "[", list, is_single ? "" : "]");
}

// Of each item what is said of its text; of several samples a list.
template <typename Text>
std::string of_texts(std::string_view name, const TextTask& task, size_t texts, const Text& text) {
  const size_t items = task.items();
  const size_t samples = items == 0 ? 1 : texts / items;
  return rows(name, items, task.is_single, [&](size_t item) {
    if (samples == 1) return text(item);
    std::string list;
    for (size_t k = 0; k < samples; ++k) list += cat(k ? "," : "", text(item * samples + k));
    return "[" + list + "]";
  });
}

std::string written(const TextTask& task, const TextTaskResult& r) {
  const bool is_one = task.is_single && r.texts.size() == 1;
  const std::string_view name = task.kind == "answer" ? "answers" : is_one ? "text" : "texts";
  const auto quoted_of = [](const std::vector<std::string>& list) {
    return [&list](size_t i) { return quoted(list[i]); };
  };
  std::string out = of_texts(name, task, r.texts.size(), quoted_of(r.texts));
  if (r.has_seeds)
    out += of_texts("seed", task, r.seeds.size(),
                    [&](size_t i) { return std::to_string(r.seeds[i]); });
  const size_t texts = r.scored.size();
  if (r.has_scored) {
    out += of_texts("tokens", task, texts, [&](size_t i) { return list_text(r.scored[i].tokens); });
    out += of_texts("logprobs", task, texts,
                    [&](size_t i) { return list_text(r.scored[i].logprobs); });
  }
  if (r.has_top)
    out +=
        of_texts("top_logprobs", task, texts, [&](size_t i) { return list_text(r.scored[i].top); });
  return out + of_texts("finish", task, r.finish.size(), quoted_of(r.finish));
}

}  // namespace

bool is_text_task(const OrderedJson& object) { return find_reader(object) != nullptr; }

TextTask parse_text_task(const OrderedJson& object) {
  const Reader& reader = *find_reader(object);
  TextTask task;
  task.kind = reader.task;
  Fields fields(object);
  reader.read(fields, task);
  task.options = fields.options(task.kind);
  return task;
}

std::string payload(const TextTask& task, const TextTaskResult& r) {
  std::string out;
  if (task.writes_text()) {
    out += written(task, r);
  } else {
    if (task.kind == "classify" && task.labels.empty()) out += ",\"labels\":" + r.labels;
    out += rows("scores", r.rows, task.is_single,
                [&](size_t row) { return numbers(r.values.data() + row * r.columns, r.columns); });
    if (task.has_order())
      out += rows("order", r.rows, task.is_single,
                  [&](size_t row) { return OrderedJson(r.order[row]).dump(); });
  }
  if (!r.cut.empty()) out += ",\"cut\":" + OrderedJson(r.cut).dump();
  if (!r.failed.empty())
    out += rows("failed", r.failed.size(), false, [&](size_t i) {
      return cat("{\"item\":", r.failed[i].item, ",\"status\":", quoted(r.failed[i].status),
                 ",\"message\":", quoted(r.failed[i].message), "}");
    });
  return out;
}

}  // namespace prefix_cli
