#include "json_members.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "json_in.h"
#include "results.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Writes what it reads: a field of the outermost object at a time.
class MemberWriter final : public nlohmann::json_sax<OrderedJson> {
 public:
  explicit MemberWriter(const JsonLimits& limits) : limits_(limits) {}
  bool is_object = false;  // the outermost value; of another one nothing is written
  std::vector<std::pair<std::string, std::string>> members;

  bool null() override { return word("null"); }
  bool boolean(bool value) override { return word(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return word(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return word(std::to_string(value)); }
  // Also of whole numbers beyond 64 bits.
  bool number_float(number_float_t, const string_t& written) override { return word(written); }
  bool string(string_t& value) override { return word(prefix_cli::quoted(value)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override {
    is_object = is_object || limits_.depth() == 0;
    return open("{");
  }
  bool end_object() override { return close("}"); }
  bool start_array(std::size_t) override { return open("["); }
  bool end_array() override { return close("]"); }
  bool key(string_t& name) override {
    limits_.key(name);
    if (!is_object) return true;
    if (limits_.depth() == 1) {
      members.emplace_back(name, "");
      return true;
    }
    separate();
    members.back().second += prefix_cli::quoted(name) + ':';
    is_first_ = true;  // the value stands behind the colon
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& e) override {
    limits_.fail_as(e, byte);
  }

 private:
  void separate() {
    if (limits_.depth() > 1 && !is_first_) members.back().second += ',';
    is_first_ = false;
  }
  bool word(std::string_view text) {
    if (!is_object) return true;
    separate();
    members.back().second += text;
    return true;
  }
  bool open(std::string_view bracket) {
    if (limits_.depth() > 0) word(bracket);
    limits_.open();
    is_first_ = true;
    return true;
  }
  bool close(std::string_view bracket) {
    limits_.close();
    if (is_object && limits_.depth() > 0) members.back().second += bracket;
    is_first_ = false;
    return true;
  }

  JsonLimits limits_;
  bool is_first_ = false;  // nothing stands before it that a comma would part it from
};

}  // namespace

std::vector<std::pair<std::string, std::string>> json_members(std::string_view text,
                                                              std::string_view what) {
  MemberWriter writer(JsonLimits(text, what));
  OrderedJson::sax_parse(text, &writer);
  if (!writer.is_object) fail(what, " is not an object");
  return std::move(writer.members);
}

}  // namespace prefix_cli
