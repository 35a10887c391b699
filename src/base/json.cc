#include "base/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "base/status.h"

namespace prefix {
namespace {

constexpr size_t kMaxDepth = 64;

// nlohmann's tree builder with two more rules; the first broken one is remembered.
class StrictBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  explicit StrictBuilder(Json& result) : Base(result, false) {}
  std::string problem;

  bool start_object(size_t n) {
    keys_.emplace_back();
    return deeper() && Base::start_object(n);
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) {
      problem = "key \"" + name.substr(0, 80) + "\" occurs twice";
      return false;
    }
    return Base::key(name);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Base::end_object();
  }
  bool start_array(size_t n) { return deeper() && Base::start_array(n); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  template <typename Exception>
  bool parse_error(size_t position, const std::string& token, const Exception& e) {
    if (problem.empty()) problem = "syntax error at byte " + std::to_string(position);
    return Base::parse_error(position, token, e);
  }

 private:
  bool deeper() {
    if (++depth_ <= kMaxDepth) return true;
    problem = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
    return false;
  }
  size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

[[noreturn]] void missing(const char* key) { fail(Code::kFormat, "key \"", key, "\" is missing"); }

}  // namespace

Json parse_json(std::string_view text, const std::string& what) {
  Json result;
  StrictBuilder builder(result);
  if (!Json::sax_parse(text.begin(), text.end(), &builder) || !builder.problem.empty())
    fail(Code::kFormat, what, " is not valid JSON: ",
         builder.problem.empty() ? "syntax error" : builder.problem);
  return result;
}

bool json_has(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum) {
  if (!json_has(object, key)) missing(key);
  const Json& value = object.at(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits) fail(Code::kFormat, "\"", key, "\" is ", value.dump().substr(0, 80), ", not an integer");
  const auto number = value.get<int64_t>();
  if (number < minimum || number > maximum)
    fail(Code::kFormat, "\"", key, "\" is ", number, ", outside [", minimum, ", ", maximum, "]");
  return number;
}

int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum,
                 int64_t absent) {
  return json_has(object, key) ? json_int(object, key, minimum, maximum) : absent;
}

double json_float(const Json& object, const char* key) {
  if (!json_has(object, key)) missing(key);
  const Json& value = object.at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    fail(Code::kFormat, "\"", key, "\" is ", value.dump().substr(0, 80), ", not a finite number");
  return value.get<double>();
}

double json_float(const Json& object, const char* key, double absent) {
  return json_has(object, key) ? json_float(object, key) : absent;
}

bool json_bool(const Json& object, const char* key, bool absent) {
  if (!json_has(object, key)) return absent;
  const Json& value = object.at(key);
  if (!value.is_boolean())
    fail(Code::kFormat, "\"", key, "\" is ", value.dump().substr(0, 80), ", not true or false");
  return value.get<bool>();
}

std::string json_string(const Json& object, const char* key, const std::string& absent) {
  if (!json_has(object, key)) return absent;
  const Json& value = object.at(key);
  if (!value.is_string())
    fail(Code::kFormat, "\"", key, "\" is ", value.dump().substr(0, 80), ", not a string");
  return value.get<std::string>();
}

}  // namespace prefix
