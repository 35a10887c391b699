// Strict JSON for files that nobody has checked: bounded depth, no duplicate keys, no trailing
// bytes, numbers read as exactly what they are.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace prefix {

using Json = nlohmann::json;

// Throws kFormat; `what` names the source in the message.
Json parse_json(std::string_view text, const std::string& what);

// A field of an object, in the type wanted. Throws kFormat naming key, value and limits; the
// versions with a default return it when the key is absent or null.
int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum);
int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum,
                 int64_t absent);
double json_float(const Json& object, const char* key);
double json_float(const Json& object, const char* key, double absent);
bool json_bool(const Json& object, const char* key, bool absent);
std::string json_string(const Json& object, const char* key, const std::string& absent);
bool json_has(const Json& object, const char* key);  // present and not null

}  // namespace prefix
