#include "base/status.h"

#include <gtest/gtest.h>

#include <string_view>
#include <system_error>

#include "base/failure.h"
#include "support/grouped_locale.h"

namespace prefix {
namespace {

// The global locale is the host's: what is joined becomes options, names of tensors and JSON.
TEST(Cat, WritesNumbersAsCDoesInAnyLocale) {
  const testing_support::GroupedLocale grouped('.');
  EXPECT_EQ(cat(1234567, ' ', -2048, ' ', 0.5, ' ', size_t{65536}), "1234567 -2048 0.5 65536");
}

TEST(TellFailure, AThreadThatTheSystemDidNotGiveIsNamed) {
  for (const std::errc scarce :
       {std::errc::resource_unavailable_try_again, std::errc::not_enough_memory}) {
    try {
      throw std::system_error(std::make_error_code(scarce));
    } catch (...) {
      tell_failure([](Code code, std::string_view sentence) {
        EXPECT_EQ(code, Code::kOutOfMemory);
        EXPECT_NE(sentence.find("thread"), std::string_view::npos) << sentence;
      });
    }
  }
}

}  // namespace
}  // namespace prefix
