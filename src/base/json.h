// Strict JSON for files that nothing has checked: bounded size and depth, no duplicate keys, no
// trailing bytes, numbers read as exactly what they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace prefix {

inline constexpr size_t kMaxJsonDepth = 64;

struct JsonLimits {
  size_t bytes = 16 << 20;
  size_t values = 1 << 20;  // objects, lists and scalars together: each takes up to 100 bytes
};
// Of a file beside a model that holds some names and numbers.
inline constexpr JsonLimits kSmallJson{.bytes = 1 << 20};

// Whether the parser has found half of a surrogate pair, as "\ud800" alone, of which no UTF-8 can be
// made. It has one number for all that is wrong with a text.
bool is_half_a_pair(const nlohmann::detail::exception& error);

// Throws kFormat; `what` names the source in the message.
Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});

// The keys of the object that a document has under `key`, in the order of its text, which a tree
// does not keep. parse_json() took the text.
std::vector<std::string> json_keys(std::string_view text, std::string_view key);

// Holds a tree that goes without taking memory. The destructor of nlohmann's takes some, and ends
// the process when there is none; so the tree of a file is held in one of these, and never copied.
class JsonDocument {
 public:
  JsonDocument() = default;
  explicit JsonDocument(Json&& tree) : tree_(std::move(tree)) {}
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const Json& tree() const { return tree_; }
  Json& tree() { return tree_; }

 private:
  Json tree_;
};

// A field of an object, in the type wanted. Throws kFormat naming key, value and limits; the
// versions with a default return it when the key is absent or null. A whole number is written as
// one: neither 4.0 nor 4e0 is an integer.
int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum);
int64_t json_int(const Json& object, const char* key, int64_t minimum, int64_t maximum,
                 int64_t absent);
// The same for a value that was found already; `key` is for the message.
int64_t json_int_value(const Json& value, const char* key, int64_t minimum, int64_t maximum);
double json_float(const Json& object, const char* key);
double json_float(const Json& object, const char* key, double absent);
bool json_bool(const Json& object, const char* key, bool absent);
std::string json_string(const Json& object, const char* key, const std::string& absent);
bool json_has(const Json& object, const char* key);  // present and not null

// The value in a few words, for messages: 4.5, "text", a list of 7 values, ...
std::string json_shown(const Json& value);

}  // namespace prefix
