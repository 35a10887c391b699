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
  void close() {
    keys_.pop_back();
    if (keys_.empty()) field_.clear();  // what follows is of no field
  }
  void key(const std::string& name) {
    if (!keys_.back().insert(name).second) fail("the key ", shown(name, 80), " occurs twice");
    if (keys_.size() == 1) field_ = name;
  }
  size_t depth() const { return keys_.size(); }

  // What the parser finds wrong, in other words. position: where it stands, for all but a number.
  [[noreturn]] void fail_as(const nlohmann::detail::exception& error, size_t position) const {
    const std::string_view said = error.what();
    // What follows is of the text itself.
    const std::string_view why = said.substr(0, said.find("last read"));
    const auto has = [why](std::string_view part) { return why.find(part) != why.npos; };
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error))
      fail(field(), " has a number that is too large; the largest is 1.8e308");
    if (has("invalid string: surrogate"))
      fail(has("object key") ? "a key" : field(), " has half of a surrogate pair at byte ",
           wrong_byte(position), " of ", what_);
    fail("not JSON at byte ", wrong_byte(position), " of ", what_);
  }

 private:
  // That of the outermost object, or all.
  std::string field() const { return field_.empty() ? what_ : cat("field ", shown(field_, 80)); }

  std::string what_;
  std::string field_;
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
    limits.fail_as(e, e.byte);
  } catch (const typename Json::out_of_range& e) {
    limits.fail_as(e, 0);
  }
}

}  // namespace prefix_cli
