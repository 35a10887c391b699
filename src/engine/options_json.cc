#include "engine/options_json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/json_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// { "key": scalar | [ integer, ... ] | [ text, ... ], ... }:
// depth 1 is the object, depth 2 a list in it.
class SettingReader final : public nlohmann::json::json_sax_t {
 public:
  std::vector<JsonSetting> settings;
  bool ended_early = false;  // at the last of them: a number that no double can hold

  [[noreturn]] static void not_an_object() {
    fail(Code::kInvalidArgument, "options must be a JSON object {\"key\": value, ...}");
  }

  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return integer(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return integer(std::to_string(value)); }
  // 2.0 and 1e3 are whole. The parser's own value is read as the locale of the host says, and 0 for
  // 1e-400.
  bool number_float(double, const std::string& text) override {
    const std::string number = plain(text);
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    const std::string whole = read.ec == std::errc() ? whole_text(value) : "";
    return whole.empty() ? scalar(number) : integer(whole);
  }
  bool string(std::string& value) override {
    if (depth_ == 2) return text(value);
    scalar(value);
    return settings.back().is_text = true;
  }
  bool binary(nlohmann::json::binary_t&) override { return scalar(""); }

  bool start_object(size_t) override {
    if (depth_ > 0) refuse("an object is no value");
    ++depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == 0) not_an_object();
    if (depth_ > 1) refuse("a list of lists is no value");
    ++depth_;
    settings.back().list = List::kEmpty;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override {
    JsonSetting& setting = settings.back();
    if (setting.list == List::kTexts) setting.value = texts_.close(']').text();
    return --depth_, true;
  }
  bool key(std::string& name) override {
    if (!keys_.insert(name).second)
      fail(Code::kInvalidArgument, "option ", quote(name), " occurs twice");
    settings.push_back({.key = name, .value = {}});
    return true;
  }
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    if (depth_ == 0) not_an_object();
    if (is_half_a_pair(error))
      fail(Code::kInvalidArgument,
           in_value() ? cat("option ", quote(settings.back().key)) : "the name of an option",
           " has half of a surrogate pair at byte ", position > 0 ? position - 1 : 0,
           " of the JSON");
    if (error.id != kBeyondAnyDouble) not_an_object();
    scalar(token);  // its option refuses it, as it would the text
    ended_early = true;
    return false;
  }

 private:
  using List = JsonSetting::List;
  static constexpr int kBeyondAnyDouble = 406;

  // A number as it stands in the text: nlohmann writes its point as the locale of the host does.
  static std::string plain(std::string number) {
    for (char& c : number)
      if (std::string_view("0123456789+-eE").find(c) == std::string_view::npos) c = '.';
    return number;
  }

  [[noreturn]] void refuse(const char* why) const {
    fail(Code::kInvalidArgument, "option ", quote(settings.back().key), ": ", why);
  }

  // Between a key and the end of its value.
  bool in_value() const {
    if (depth_ == 2) return true;
    return !settings.empty() && settings.back().value.empty() && !settings.back().is_text &&
           settings.back().list == List::kNone;
  }

  bool scalar(const std::string& text) {
    if (depth_ == 0) not_an_object();
    if (depth_ > 1) refuse("a list must be of whole numbers or of texts");
    settings.back().value = text;
    return true;
  }
  bool integer(const std::string& text) {
    if (depth_ != 2) return scalar(text);
    JsonSetting& setting = settings.back();
    begin(setting, List::kInts);
    if (!setting.value.empty()) setting.value += ',';
    setting.value += text;
    return true;
  }
  bool text(const std::string& item) {
    begin(settings.back(), List::kTexts);
    texts_.value(item);
    return true;
  }
  // All items of a list are of one kind.
  void begin(JsonSetting& setting, List kind) {
    if (setting.list == List::kEmpty) {
      setting.list = kind;
      if (kind == List::kTexts) texts_ = JsonText(), texts_.open('[');
    }
    if (setting.list != kind) refuse("a list must be of whole numbers or of texts, not both");
  }

  int depth_ = 0;
  std::set<std::string> keys_;
  JsonText texts_;
};

// Strict: nlohmann takes a zero byte for the end of the text and skips a byte order mark.
template <typename Reader>
bool parse_strictly(std::string_view text, Reader& reader) {
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xef\xbb\xbf")) return false;
  return nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
}

}  // namespace

std::vector<JsonSetting> parse_options_json(std::string_view text) {
  SettingReader reader;
  if (!parse_strictly(text, reader) && !reader.ended_early) SettingReader::not_an_object();
  return std::move(reader.settings);
}

std::string whole_text(double number) {
  constexpr double kEnd = 9223372036854775808.0;  // what an int64_t is below
  const bool whole = number > -kEnd && number < kEnd && std::trunc(number) == number;
  return whole ? std::to_string(static_cast<int64_t>(number)) : "";
}

std::optional<std::vector<std::string>> text_list(std::string_view text) {
  class Reader final : public nlohmann::json::json_sax_t {
   public:
    std::vector<std::string> texts;

    bool null() override { return false; }
    bool boolean(bool) override { return false; }
    bool number_integer(int64_t) override { return false; }
    bool number_unsigned(uint64_t) override { return false; }
    bool number_float(double, const std::string&) override { return false; }
    bool string(std::string& value) override {
      if (inside_) texts.push_back(std::move(value));
      return inside_;
    }
    bool binary(nlohmann::json::binary_t&) override { return false; }
    bool start_object(size_t) override { return false; }
    bool key(std::string&) override { return false; }
    bool end_object() override { return false; }
    bool start_array(size_t) override { return !std::exchange(inside_, true); }
    bool end_array() override { return true; }
    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
      return false;
    }

   private:
    bool inside_ = false;
  } reader;
  if (!parse_strictly(text, reader)) return std::nullopt;
  return std::move(reader.texts);
}

}  // namespace prefix
