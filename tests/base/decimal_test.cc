#include "base/decimal.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <vector>

namespace prefix {
namespace {

TEST(Decimal, NumbersThatNoDoubleHoldsAreTooSmallOrTooLarge) {
  const std::string zeros(400, '0');
  const auto refused = [](const std::string& number) {
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    return read.ec == std::errc::result_out_of_range;
  };
  for (const std::string& small :
       std::vector<std::string>{"1e-400", "-1e-9999999", "2.5E-99999999999999999999",
                                "0." + zeros + "1", "0." + zeros + "1e+5", ".0" + zeros + "7e3"}) {
    ASSERT_TRUE(refused(small)) << small;
    EXPECT_TRUE(is_below_doubles(small)) << small;
  }
  for (const std::string& large :
       std::vector<std::string>{"1e400", "-1e9999999", "2.5E99999999999999999999", "1" + zeros,
                                "1" + zeros + "e-5", "-1" + zeros + ".5"}) {
    ASSERT_TRUE(refused(large)) << large;
    EXPECT_FALSE(is_below_doubles(large)) << large;
  }
}

}  // namespace
}  // namespace prefix
