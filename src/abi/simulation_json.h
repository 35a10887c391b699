// Reads the JSON that a simulation is given: what is wrong is named with its limit. An object must
// hold known keys only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix::abi {

// What comes back must go into a JsonDocument at once.
inline Json json_in(std::string_view text, const char* what) {
  try {
    return parse_json(text, what, JsonLimits{64 << 20, 4 << 20});
  } catch (const Error& e) {
    // No file is at fault here, but an argument.
    if (e.code() == Code::kFormat) fail(Code::kInvalidArgument, e.message());
    throw;
  }
}

inline void require_object(const Json& value, const char* what) {
  if (!value.is_object())
    fail(Code::kInvalidArgument, what, " is ", json_shown(value), ", not an object");
}

inline void only_keys(const Json& object, std::string_view what,
                      std::span<const std::string_view> keys) {
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (const std::string_view k : keys) known += cat(known.empty() ? "" : ", ", k);
    fail(Code::kInvalidArgument, quote(key), " is no key of ", what, "; its keys are ", known);
  }
}

inline const Json* field(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

inline const Json& needed_field(const Json& object, const char* key, std::string_view what) {
  const Json* const value = field(object, key);
  if (!value) fail(Code::kInvalidArgument, what, " needs \"", key, "\"");
  return *value;
}

// `name` is for the message, and may be anything that cat() prints.
template <typename Name>
int64_t integer(const Json& value, const Name& name, int64_t minimum, int64_t maximum) {
  if (!value.is_number_integer())
    fail(Code::kInvalidArgument, name, " is ", json_shown(value), ", not an integer");
  const bool beyond = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = beyond ? INT64_MAX : value.get<int64_t>();
  if (beyond || number < minimum || number > maximum)
    fail(Code::kOutOfRange, name, " is ", json_shown(value), ", outside [", minimum, ", ", maximum,
         "]");
  return number;
}

inline int64_t integer_field(const Json& object, const char* key, int64_t minimum, int64_t maximum,
                             int64_t absent) {
  const Json* const value = field(object, key);
  return value ? integer(*value, cat('"', key, '"'), minimum, maximum) : absent;
}

inline bool bool_field(const Json& object, const char* key) {
  const Json* const value = field(object, key);
  if (value && !value->is_boolean())
    fail(Code::kInvalidArgument, '"', key, "\" is ", json_shown(*value), ", not true or false");
  return value && value->get<bool>();
}

inline std::string_view text_of(const Json& value, const char* key) {
  if (!value.is_string())
    fail(Code::kInvalidArgument, '"', key, "\" is ", json_shown(value), ", not a string");
  return value.get_ref<const std::string&>();
}

template <typename T>
std::vector<T> integers(const Json& list, const char* key, int64_t maximum) {
  if (!list.is_array())
    fail(Code::kInvalidArgument, '"', key, "\" is ", json_shown(list), ", not a list");
  std::vector<T> values;
  values.reserve(list.size());
  for (const Json& v : list) {
    // The name is made only for what is wrong: these lists are long.
    if (v.is_number_unsigned() && v.get<uint64_t>() <= static_cast<uint64_t>(maximum))
      values.push_back(static_cast<T>(v.get<uint64_t>()));
    else
      values.push_back(
          static_cast<T>(integer(v, cat("value ", values.size(), " of \"", key, '"'), 0, maximum)));
  }
  return values;
}

}  // namespace prefix::abi
