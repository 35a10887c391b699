// Asserts that something fails with one status and a message that names what it must name.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"

namespace prefix::testing_support {

template <typename Action>
void expect_error(Code code, std::initializer_list<std::string_view> parts, Action action) {
  std::string message;
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int32_t>(e.code()), static_cast<int32_t>(code)) << e.message();
    for (const std::string_view part : parts)
      EXPECT_NE(e.message().find(part), std::string::npos)
          << "the message lacks '" << part << "': " << e.message();
    return;
  }
  ADD_FAILURE() << "nothing failed; expected status " << static_cast<int32_t>(code);
}

}  // namespace prefix::testing_support
