#include "engine/logit_bias.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/decimal.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr double kMaxBias = 100;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<LogitBias> read() const {
    std::vector<LogitBias> list;
    for (size_t at = 0; at < text_.size();) {
      const size_t comma = std::min(text_.find(',', at), text_.size());
      list.push_back(one(text_.substr(at, comma - at)));
      if (comma + 1 == text_.size()) refuse_form();
      at = comma + 1;
    }
    std::ranges::sort(list, {}, &LogitBias::token);
    const auto twice = std::ranges::adjacent_find(list, {}, &LogitBias::token);
    if (twice != list.end())
      refuse(Code::kInvalidArgument, "token ", twice->token, " is there twice");
    return list;
  }

 private:
  template <typename... Why>
  [[noreturn]] void refuse(Code code, const Why&... why) const {
    fail(code, "option logit_bias = ", quote(text_), ": ", why...);
  }
  [[noreturn]] void refuse_form() const {
    refuse(Code::kInvalidArgument, "it must be tokens with numbers, as 464:-100,11:2.5");
  }

  // All of `digits` is one number, within its type or beyond.
  template <typename Number>
  Number number(std::string_view digits, const char* what, Number least, Number most) const {
    Number value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc::invalid_argument || stop != end || value != value) refuse_form();
    if (std::is_floating_point_v<Number> && error != std::errc() && is_below_doubles(digits))
      refuse(Code::kOutOfRange, what, " ", quote(digits), " ", kBelowDoubles, "; it must be in [",
             least, ", ", most, "]");
    if (error != std::errc() || value < least || value > most)
      refuse(Code::kOutOfRange, what, " ", quote(digits), " is outside [", least, ", ", most, "]");
    return value;
  }

  LogitBias one(std::string_view item) const {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) refuse_form();
    const auto token = number<int32_t>(item.substr(0, colon), "token", 0, INT32_MAX);
    const auto bias = number<double>(item.substr(colon + 1), "bias", -kMaxBias, kMaxBias);
    return {token, static_cast<float>(bias)};
  }

  std::string_view text_;
};

}  // namespace

std::vector<LogitBias> parse_logit_bias(std::string_view text) { return Reader(text).read(); }

}  // namespace prefix
