#include "engine/options_json.h"

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// { "key": scalar | [ integer, ... ], ... }: depth 1 is the object, depth 2 a list in it.
class SettingReader final : public nlohmann::json::json_sax_t {
 public:
  std::vector<JsonSetting> settings;

  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return integer(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return integer(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return scalar(text); }
  bool string(std::string& value) override { return scalar(value); }
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
    settings.back().is_list = true;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(std::string& name) override {
    settings.push_back({.key = name, .value = {}});
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    not_an_object();
  }

 private:
  [[noreturn]] static void not_an_object() {
    fail(Code::kInvalidArgument, "options must be a JSON object {\"key\": value, ...}");
  }
  [[noreturn]] void refuse(const char* why) const {
    fail(Code::kInvalidArgument, "option ", quote(settings.back().key), ": ", why);
  }

  bool scalar(const std::string& text) {
    if (depth_ == 0) not_an_object();
    if (depth_ > 1) refuse("a list must be of whole numbers");
    settings.back().value = text;
    return true;
  }
  bool integer(const std::string& text) {
    if (depth_ != 2) return scalar(text);
    std::string& list = settings.back().value;
    if (!list.empty()) list += ',';
    list += text;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

std::vector<JsonSetting> parse_options_json(std::string_view text) {
  SettingReader reader;
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.settings);
}

}  // namespace prefix
