// JSON of the user, read with limits: a hostile text must not exhaust the stack,
// and of two equal keys one would be dropped silently.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common.h"

namespace prefix_cli {

constexpr size_t kMaxJsonDepth = 32;
constexpr size_t kMaxJsonBytes = size_t{1} << 30;

// Where a text is wrong, as the library counts: from 0. The parser counts from 1.
constexpr size_t wrong_byte(size_t position) { return position > 0 ? position - 1 : 0; }

// The limits, for whatever reads a text. Messages name it by `what`: "the value".
class JsonLimits {
 public:
  JsonLimits(std::string_view text, std::string_view what) : what_(what) {
    if (text.size() > kMaxJsonBytes)
      fail(what, " has ", text.size(), " bytes; the limit is ", kMaxJsonBytes);
    if (text.starts_with(kByteOrderMark)) fail(what, " begins with a byte order mark");
  }
  // Of an object or a list.
  void open() {
    if (keys_.size() >= kMaxJsonDepth)
      fail("the JSON is nested deeper than ", kMaxJsonDepth, " levels");
    keys_.emplace_back();
  }
  void close() { keys_.pop_back(); }
  void key(const std::string& name) {
    if (!keys_.back().insert(name).second) fail("the key ", shown(name, 80), " occurs twice");
  }
  size_t depth() const { return keys_.size(); }

  [[noreturn]] void fail_at(size_t position) const {
    fail("not JSON at byte ", wrong_byte(position), " of ", what_);
  }
  [[noreturn]] static void fail_of_number() {  // in the parser's own words otherwise
    fail("not JSON: it has a number that is too large");
  }

 private:
  std::string what_;
  std::vector<std::set<std::string>> keys_;  // of what is open
};

// A value as messages show it.
inline std::string json_shown(const nlohmann::ordered_json& value) {
  if (value.is_string()) return shown(value.get_ref<const std::string&>(), 57);
  const std::string text =
      value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

// Json: nlohmann::json, or ordered_json where the order of fields counts.
template <typename Json>
Json json_in(std::string_view text, std::string_view what) {
  JsonLimits limits(text, what);
  const auto check = [&limits](int, typename Json::parse_event_t event, Json& value) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        limits.open();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        limits.close();
        break;
      case Json::parse_event_t::key:
        limits.key(value.template get_ref<const std::string&>());
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::parse_error& e) {
    limits.fail_at(e.byte);
  } catch (const typename Json::out_of_range&) {
    JsonLimits::fail_of_number();
  }
}

}  // namespace prefix_cli
