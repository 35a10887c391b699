// JSON of the user, read with limits: a hostile text must not exhaust the stack, and of two equal keys
// one would be dropped silently.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common.h"

namespace prefix_cli {

constexpr int kMaxJsonDepth = 32;
constexpr size_t kMaxJson = size_t{1} << 30;

// Json: nlohmann::json, or ordered_json where the order of fields counts. `what` begins messages: "the
// line".
template <typename Json>
Json json_in(std::string_view text, std::string_view what) {
  if (text.size() > kMaxJson) fail(what, " has ", text.size(), " bytes; the limit is ", kMaxJson);
  if (text.starts_with(kByteOrderMark)) fail(what, " begins with a byte order mark");
  std::vector<std::set<std::string>> keys;
  const auto check = [&keys](int depth, typename Json::parse_event_t event, Json& value) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= kMaxJsonDepth)
          fail("the JSON is nested deeper than ", kMaxJsonDepth, " levels");
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = value.template get_ref<const std::string&>();
        if (!keys.back().insert(key).second) fail("the key ", shown(key, 80), " occurs twice");
        break;
      }
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::parse_error& e) {
    fail("not JSON at byte ", e.byte);
  } catch (const typename Json::out_of_range&) {
    fail("not JSON: it has a number that is too large");  // in the parser's own words otherwise
  }
}

}  // namespace prefix_cli
