#include "model/files/gguf_metadata.h"

#include <cmath>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

struct Shown {
  std::string operator()(int64_t v) const { return cat(v); }
  std::string operator()(double v) const { return cat(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const GgufList& v) const { return cat("a list of ", v.length, " values"); }
};

[[noreturn]] void wrong(const std::string& key, const GgufValue& value, const char* wanted) {
  fail(Code::kFormat, "GGUF key ", quote(key), " is ", std::visit(Shown(), value), ", not ",
       wanted);
}

}  // namespace

const GgufValue& GgufMetadata::require(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(Code::kFormat, "GGUF key ", quote(key), " is missing");
  return found->second;
}

int64_t GgufMetadata::integer(const std::string& key, int64_t minimum, int64_t maximum) const {
  const GgufValue& value = require(key);
  const auto* number = std::get_if<int64_t>(&value);
  if (!number) wrong(key, value, "an integer");
  if (*number < minimum || *number > maximum)
    fail(Code::kFormat, "GGUF key ", quote(key), " is ", *number, ", outside [", minimum, ", ",
         maximum, "]");
  return *number;
}

int64_t GgufMetadata::integer(const std::string& key, int64_t minimum, int64_t maximum,
                              int64_t absent) const {
  return has(key) ? integer(key, minimum, maximum) : absent;
}

double GgufMetadata::number(const std::string& key) const {
  const GgufValue& value = require(key);
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&value);
  if (!number || !std::isfinite(*number)) wrong(key, value, "a finite number");
  return *number;
}

double GgufMetadata::number(const std::string& key, double absent) const {
  return has(key) ? number(key) : absent;
}

bool GgufMetadata::boolean(const std::string& key, bool absent) const {
  if (!has(key)) return absent;
  const GgufValue& value = require(key);
  const auto* flag = std::get_if<bool>(&value);
  if (!flag) wrong(key, value, "true or false");
  return *flag;
}

std::vector<int64_t> GgufMetadata::integers(const std::string& key, size_t count, int64_t minimum,
                                            int64_t maximum) const {
  const GgufValue& value = require(key);
  const auto* list = std::get_if<GgufList>(&value);
  if (!list || list->values.size() != count)
    wrong(key, value, cat("a list of ", count, " whole numbers").c_str());
  for (const int64_t number : list->values)
    if (number < minimum || number > maximum)
      fail(Code::kFormat, "GGUF key ", quote(key), " holds ", number, ", outside [", minimum, ", ",
           maximum, "]");
  return list->values;
}

bool GgufMetadata::is_list(const std::string& key) const {
  return has(key) && std::holds_alternative<GgufList>(require(key));
}

std::vector<std::string> GgufMetadata::texts(const std::string& key) const {
  if (!has(key)) return {};
  const GgufValue& value = require(key);
  const auto* list = std::get_if<GgufList>(&value);
  if (!list || list->texts.size() != list->length)
    wrong(key, value, cat("a list of at most ", GgufList::most(key), " texts").c_str());
  return list->texts;
}

std::string GgufMetadata::text(const std::string& key) const {
  const GgufValue& value = require(key);
  const auto* text = std::get_if<std::string>(&value);
  if (!text) wrong(key, value, "text");
  return *text;
}

std::string GgufMetadata::text(const std::string& key, const std::string& absent) const {
  return has(key) ? text(key) : absent;
}

}  // namespace prefix
