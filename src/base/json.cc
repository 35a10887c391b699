#include "base/json.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// Builds the value from the parser's events. The first broken rule stops the parser and is kept.
class StrictBuilder final : public Json::json_sax_t {
 public:
  StrictBuilder(Json& result, size_t max_values) : result_(result), max_values_(max_values) {}
  std::string problem;

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(int64_t value) override { return put(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return put(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return put(value) != nullptr; }
  bool string(std::string& value) override { return put(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) override { return stop("binary values are not JSON"); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    const auto [at, fresh] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!fresh) return stop(cat("key ", quote(name), " occurs twice"));
    member_ = &at->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // 406: a number that no double can hold.
    const char* const what = error.id == 406         ? "number out of range"
                             : is_half_a_pair(error) ? "half of a surrogate pair"
                                                     : "syntax error";
    return stop(cat(what, " at byte ", position > 0 ? position - 1 : 0));
  }

 private:
  bool stop(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }

  // Where the next value belongs: the root, the end of the innermost list, or the last key. These
  // addresses stay good while a value below them is built, because its parent waits for it.
  template <typename Value>
  Json* put(Value&& value) {
    if (++values_ > max_values_) {
      stop(cat("it has more than ", max_values_, " values"));
      return nullptr;
    }
    Json* place = &result_;
    if (!open_.empty() && open_.back()->is_array())
      place = &open_.back()->get_ref<Json::array_t&>().emplace_back();
    else if (!open_.empty())
      place = member_;
    *place = std::forward<Value>(value);
    return place;
  }

  bool open(Json&& container) {
    if (open_.size() == kMaxJsonDepth)
      return stop(cat("it is nested deeper than ", kMaxJsonDepth, " levels"));
    Json* const place = put(std::move(container));
    if (place) open_.push_back(place);
    return place != nullptr;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json& result_;
  size_t max_values_;
  size_t values_ = 0;
  std::vector<Json*> open_;  // the containers around the next value, outermost first
  Json* member_ = nullptr;   // of the innermost object
};

class KeyReader final : public Json::json_sax_t {
 public:
  explicit KeyReader(std::string_view key) : key_(key) {}
  std::vector<std::string> keys;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string& name) override {
    if (depth_ == 1) inside_ = name == key_;
    if (depth_ == 2 && inside_) keys.push_back(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::string_view key_;
  int depth_ = 0;
  bool inside_ = false;  // the last key of the document's own object is the one asked for
};

[[noreturn]] void wrong(const char* key, const Json& value, const char* wanted) {
  fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), ", not ", wanted);
}

// The value of a key; null when it is absent or null.
const Json* find(const Json& object, const char* key) {
  if (!object.is_object())
    fail(Code::kFormat, "\"", key, "\" is looked for in ", json_shown(object));
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// From the leaves up, so that no destructor finds anything below it. As deep as parse_json allows.
void prune(Json& value) noexcept {
  if (value.is_array()) {
    for (Json& v : value.get_ref<Json::array_t&>()) prune(v);
    value.get_ref<Json::array_t&>().clear();
  } else if (value.is_object()) {
    for (auto& [key, v] : value.get_ref<Json::object_t&>()) prune(v);
    value.get_ref<Json::object_t&>().clear();
  }
}

const Json& require(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (!value) fail(Code::kFormat, "key \"", key, "\" is missing");
  return *value;
}

}  // namespace

JsonDocument::~JsonDocument() { prune(tree_); }

bool is_half_a_pair(const nlohmann::detail::exception& error) {
  const std::string_view said = error.what();
  // What follows is of the text itself.
  return said.substr(0, said.find("last read")).find("invalid string: surrogate") !=
         std::string_view::npos;
}

Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    fail(Code::kFormat, what, " has ", text.size(), " bytes; at most ", limits.bytes,
         " are allowed");
  // nlohmann takes a zero byte for the end of the text and skips a byte order mark.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    fail(Code::kFormat, what, " is not valid JSON: zero byte at byte ", zero);
  if (text.starts_with("\xef\xbb\xbf"))
    fail(Code::kFormat, what, " is not valid JSON: it starts with a byte order mark");
  JsonDocument result;  // in case that it fails halfway
  StrictBuilder builder(result.tree(), limits.values);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    fail(Code::kFormat, what, " is not valid JSON: ", builder.problem);
  return std::move(result.tree());
}

std::vector<std::string> json_keys(std::string_view text, std::string_view key) {
  KeyReader reader(key);
  Json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.keys);
}

std::string json_shown(const Json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_array()) return cat("a list of ", value.size(), " values");
  if (value.is_object()) return cat("an object of ", value.size(), " keys");
  return value.dump();
}

bool json_has(const Json& object, const char* key) { return find(object, key) != nullptr; }

int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum) {
  return json_int_value(require(object, key), key, minimum, maximum);
}

int64_t json_int_value(const Json& value, const char* key, int64_t minimum, int64_t maximum) {
  if (!value.is_number_integer()) wrong(key, value, "an integer");
  const bool beyond = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = beyond ? INT64_MAX : value.get<int64_t>();
  if (beyond || number < minimum || number > maximum)
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), ", outside [", minimum, ", ",
         maximum, "]");
  return number;
}

int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum,
                 int64_t absent) {
  return json_has(object, key) ? json_int(object, key, minimum, maximum) : absent;
}

double json_float(const Json& object, const char* key) {
  const Json& value = require(object, key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    wrong(key, value, "a finite number");
  return value.get<double>();
}

double json_float(const Json& object, const char* key, double absent) {
  return json_has(object, key) ? json_float(object, key) : absent;
}

bool json_bool(const Json& object, const char* key, bool absent) {
  const Json* value = find(object, key);
  if (!value) return absent;
  if (!value->is_boolean()) wrong(key, *value, "true or false");
  return value->get<bool>();
}

std::string json_string(const Json& object, const char* key, const std::string& absent) {
  const Json* value = find(object, key);
  if (!value) return absent;
  if (!value->is_string()) wrong(key, *value, "a string");
  return value->get<std::string>();
}

}  // namespace prefix
