#include "requests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common.h"
#include "json_in.h"
#include "logit_bias.h"
#include "results.h"
#include "text_task.h"

namespace prefix_cli {
namespace {

// The order of keys counts in messages and tools: a template may print them.
using OrderedJson = nlohmann::ordered_json;

enum class Type { kInt, kNumber, kBool, kText, kIntList, kBias };

struct OptionField {
  std::string_view name;
  Type type;
};

// Fields that the library knows as request options under the same name: all but namespace_id, which
// is a number of the engine's own. It checks their ranges.
constexpr std::array kOptionFields = {
    OptionField{"dimensions", Type::kInt},     OptionField{"normalize", Type::kBool},
    OptionField{"max_tokens", Type::kInt},     OptionField{"temperature", Type::kNumber},
    OptionField{"top_k", Type::kInt},          OptionField{"top_p", Type::kNumber},
    OptionField{"min_p", Type::kNumber},       OptionField{"repetition_penalty", Type::kNumber},
    OptionField{"seed", Type::kInt},           OptionField{"stop_tokens", Type::kIntList},
    OptionField{"ignore_eos", Type::kBool},    OptionField{"logprobs", Type::kBool},
    OptionField{"deadline_ms", Type::kInt},    OptionField{"priority", Type::kInt},
    OptionField{"cache_priority", Type::kInt}, OptionField{"cache_ttl_ms", Type::kInt},
    OptionField{"checkpoint", Type::kIntList}, OptionField{"pooling", Type::kText},
    OptionField{"positions", Type::kIntList},  OptionField{"head", Type::kBool},
    OptionField{"dense", Type::kBool},         OptionField{"presence_penalty", Type::kNumber},
    OptionField{"min_tokens", Type::kInt},     OptionField{"frequency_penalty", Type::kNumber},
    OptionField{"top_logprobs", Type::kInt},   OptionField{"allowed_tokens", Type::kIntList},
    OptionField{"logit_bias", Type::kBias},    OptionField{"draft_tokens", Type::kInt},
};

constexpr std::array<std::string_view, 12> kOtherFields = {
    "id",      "tokens", "text", "messages", "task", "namespace",
    "adapter", "ids",    "from", "choices",  "stop", "continuation"};

int64_t read_int(std::string_view field, const OrderedJson& value, int64_t minimum,
                 int64_t maximum) {
  // Writers that know doubles only have 2.0 for 2; what 64 bits do not hold is read as a double.
  const double number = value.is_number_float() ? value.get<double>() : 0;
  const bool beyond = std::fabs(number) >= 0x1p63;
  if (!value.is_number() || std::trunc(number) != number)
    fail(field, " = ", json_shown(value), " is not a whole number");
  // An unsigned value above the signed range would wrap to a negative number.
  const bool too_large = value.is_number_unsigned() &&
                         value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (beyond || too_large || value.get<int64_t>() < minimum || value.get<int64_t>() > maximum)
    fail(field, " = ", json_shown(value), " is outside [", minimum, ", ", maximum, "]");
  return value.get<int64_t>();
}

std::vector<int32_t> read_tokens(std::string_view field, const OrderedJson& value,
                                 std::string_view of = "token ids") {
  if (!value.is_array()) fail(field, " = ", json_shown(value), " is not a list of ", of);
  std::vector<int32_t> tokens;
  tokens.reserve(value.size());
  for (const OrderedJson& item : value)
    // Negative ids are left to the library, which knows the vocabulary and names its size.
    tokens.push_back(static_cast<int32_t>(read_int(field, item, std::numeric_limits<int32_t>::min(),
                                                   std::numeric_limits<int32_t>::max())));
  return tokens;
}

std::string read_string(std::string_view field, const OrderedJson& value) {
  if (!value.is_string()) fail(field, " = ", json_shown(value), " is not a string");
  return value.get<std::string>();
}

std::string read_id(const OrderedJson& value) {
  if (value.is_number_integer()) return value.dump();
  if (!value.is_string())
    fail("id = ", json_shown(value), " is neither a string nor a whole number in digits alone");
  return quoted(value.get_ref<const std::string&>());
}

std::string option_text(const OptionField& field, const OrderedJson& value) {
  switch (field.type) {
    case Type::kInt:
      // The limits of the option are the library's.
      return std::to_string(read_int(field.name, value, std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max()));
    case Type::kNumber:
      if (!value.is_number()) fail(field.name, " = ", json_shown(value), " is not a number");
      return value.dump();
    case Type::kBool:
      if (!value.is_boolean()) fail(field.name, " = ", json_shown(value), " is not true or false");
      return value.dump();
    case Type::kText:
      return read_string(field.name, value);
    case Type::kBias:
      return logit_bias_text(value);
    case Type::kIntList:
      break;
  }
  std::string text;
  for (const int32_t number : read_tokens(field.name, value, "whole numbers"))
    text += cat(text.empty() ? "" : ",", number);
  return text;
}

struct TaskName {
  std::string_view name;
  Task task;
};
constexpr std::array kTasks = {
    TaskName{"logits", Task::kLogits},     TaskName{"logprobs", Task::kLogprobs},
    TaskName{"choices", Task::kChoices},   TaskName{"embed", Task::kEmbed},
    TaskName{"generate", Task::kGenerate},
};

Task read_task(const OrderedJson& value) {
  const std::string name = read_string("task", value);
  for (const TaskName& known : kTasks)
    if (known.name == name) return known.task;
  fail("task = ", shown(name, 80),
       " is not one of logits, logprobs, choices, embed, generate, rerank, answer, classify, chat");
}

std::string_view name_of(Task task) {
  return std::find_if(kTasks.begin(), kTasks.end(),
                      [&](const TaskName& known) { return known.task == task; })
      ->name;
}

// Fields that one task alone has. (What is an option is refused by the library.)
constexpr std::array kFieldsOfTasks = {
    TaskName{"ids", Task::kLogits},
    TaskName{"from", Task::kLogprobs},
    TaskName{"continuation", Task::kLogprobs},
    TaskName{"choices", Task::kChoices},
    TaskName{"stop", Task::kGenerate},
};

void refuse_fields_of_others(const OrderedJson& object, Task task) {
  for (const TaskName& field : kFieldsOfTasks)
    if (field.task != task && object.contains(field.name))
      fail("field ", field.name, " is of task ", name_of(field.task), "; a request for ",
           name_of(task), " does not take it");
}

void read_prompt(const OrderedJson& object, Request& request) {
  const int given = static_cast<int>(object.contains("tokens")) +
                    static_cast<int>(object.contains("text")) +
                    static_cast<int>(object.contains("messages"));
  if (given != 1) fail("exactly one of tokens, text and messages is needed; ", given, " are given");
  if (object.contains("tokens")) {
    request.prompt.tokens = read_tokens("tokens", object["tokens"]);
  } else if (object.contains("text")) {
    request.prompt.is_text = true;
    request.prompt.text = read_string("text", object["text"]);
  } else {
    const OrderedJson& messages = object["messages"];
    if (!messages.is_array() || messages.empty())
      fail("messages = ", json_shown(messages), " is not a list of chat messages");
    for (const OrderedJson& message : messages)
      if (!message.is_object() || !message.contains("role"))
        fail("messages holds ", json_shown(message), ", which is not an object with a role");
    request.messages = messages.dump();
  }
}

void read_choices(const OrderedJson& value, Request& request) {
  if (!value.is_array() || value.empty())
    fail("choices = ", json_shown(value), " is not a list of token lists or texts");
  for (const OrderedJson& item : value) {
    Piece piece;
    if (item.is_string()) {
      piece.is_text = true;
      piece.text = item.get<std::string>();
    } else {
      piece.tokens = read_tokens("choices", item);
    }
    request.choices.push_back(std::move(piece));
  }
}

void read_stop(const OrderedJson& value, Request& request) {
  const auto add = [&request, &value](const OrderedJson& item) {
    request.stop.push_back(read_string("stop", item));
    // As the library says it of option stop of a task.
    if (!request.stop.back().empty()) return;
    fail("stop", value.is_array() ? cat("[", request.stop.size() - 1, "]") : "",
         " is empty; a stop text has at least 1 byte");
  };
  if (!value.is_array()) return add(value);
  for (const OrderedJson& item : value) add(item);
}

// The score of a text after a text has its start from the tokens of the first.
void read_from(const OrderedJson& object, Request& request) {
  if (object.contains("continuation")) {
    request.continuation = read_string("continuation", object["continuation"]);
    if (object.contains("from")) fail("from and continuation exclude each other");
    if (!request.wants_text()) fail("continuation needs text or messages, not tokens");
  }
  if (object.contains("from"))
    request.from = static_cast<int32_t>(
        read_int("from", object["from"], 1, std::numeric_limits<int32_t>::max()));
}

void read_object(const OrderedJson& object, Request& request) {
  if (is_text_task(object)) {
    request.text_task = std::make_shared<TextTask>(parse_text_task(object));
    request.task = Task::kText;
    return;
  }
  for (const auto& [key, value] : object.items()) {
    const auto is_option = [&key = key](const OptionField& f) { return f.name == key; };
    const auto* field = std::find_if(kOptionFields.begin(), kOptionFields.end(), is_option);
    if (field != kOptionFields.end())
      request.options.emplace_back(key, option_text(*field, value));
    else if (std::find(kOtherFields.begin(), kOtherFields.end(), key) == kOtherFields.end())
      fail("unknown field ", shown(key, 80));
  }
  read_prompt(object, request);
  if (object.contains("task")) request.task = read_task(object["task"]);
  refuse_fields_of_others(object, request.task);
  if (object.contains("namespace"))
    request.name_space = read_string("namespace", object["namespace"]);
  if (object.contains("adapter")) request.adapter = read_string("adapter", object["adapter"]);
  if (object.contains("ids")) request.ids = read_tokens("ids", object["ids"]);
  if (request.task == Task::kLogits && request.ids.empty())
    fail("task logits needs ids, a list with at least 1 token id");
  read_from(object, request);
  if (object.contains("choices")) read_choices(object["choices"], request);
  if (request.task == Task::kChoices && request.choices.empty())
    fail("task choices needs choices, a list with at least 1 choice");
  if (object.contains("stop")) read_stop(object["stop"], request);
}

}  // namespace

bool Request::needs_tokenizer() const {
  if (wants_text() || task == Task::kText) return true;
  if (!stop.empty()) return true;
  return task == Task::kChoices &&
         std::any_of(choices.begin(), choices.end(), [](const Piece& c) { return c.is_text; });
}

Request parse_request(const std::string& text, int64_t line, const std::string& id, bool& flush) {
  Request request;
  request.line = line;
  request.id = quoted(id);
  flush = false;
  try {
    const auto object = json_in<OrderedJson>(text, "the value");
    if (!object.is_object()) fail(json_shown(object), " is not a JSON object");
    if (object.contains("flush")) {
      if (object.size() != 1 || object["flush"] != true)
        fail("a flush line is {\"flush\": true} and nothing else");
      flush = true;
      return request;
    }
    if (object.contains("id")) request.id = read_id(object["id"]);
    read_object(object, request);
  } catch (const std::bad_alloc&) {  // no matter of this line
    throw;
  } catch (const std::exception& e) {
    request.error = cat("line ", line, ": ", e.what());
  }
  return request;
}

RequestReader::Kind RequestReader::next(Request& request) {
  const auto default_id = [&] {
    const std::string line = std::to_string(stream_.line());
    return stream_.place() > 1 ? cat(line, ".", stream_.place()) : line;
  };
  std::string text;
  try {
    if (!stream_.next(text)) return Kind::kEnd;
  } catch (const Failure& e) {
    request = {};
    request.line = stream_.line();
    request.id = quoted(default_id());
    request.error = cat("line ", request.line, ": ", e.what());
    return Kind::kRequest;
  }
  bool flush = false;
  request = parse_request(text, stream_.line(), default_id(), flush);
  return flush ? Kind::kFlush : Kind::kRequest;
}

}  // namespace prefix_cli
