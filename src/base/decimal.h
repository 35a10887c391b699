// Decimal numbers that std::from_chars refuses as out of range: some are too large for a double,
// and some lie between 0 and the least one, which is not a matter of the limits of an option.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace prefix {

// How messages go on behind a number that is_below_doubles().
inline constexpr std::string_view kBelowDoubles =
    "is not 0 and nearer to it than 4.9e-324, the least number";

// Whether the number is too small; else it is too large. It is one for std::from_chars, and not 0.
inline bool is_below_doubles(std::string_view number) {
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, e);
  std::string_view power = number.substr(std::min(e + 1, number.size()));
  const bool is_negative = power.starts_with('-');
  if (power.starts_with('+')) power.remove_prefix(1);
  int64_t exponent = 0;
  const auto read = std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (read.ec == std::errc::result_out_of_range) return is_negative;
  // Of the first digit that counts, within one: numbers that no double holds are hundreds away.
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = std::min(mantissa.find_first_of("123456789"), mantissa.size());
  return exponent < static_cast<int64_t>(first) - static_cast<int64_t>(point);
}

}  // namespace prefix
