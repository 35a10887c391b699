#include "base/error_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>

#include "base/input_file.h"
#include "base/plugin.h"
#include "base/status.h"

namespace prefix {
namespace {

// A host in German, in Latin-1, where this system has the translations of the C library.
class German : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("LANGUAGE", "de", 1);
    setenv("OUTPUT_CHARSET", "ISO-8859-1", 1);
    std::setlocale(LC_ALL, "C.UTF-8");
    if (std::strcmp(std::strerror(EINVAL), "Invalid argument") == 0)
      GTEST_SKIP() << "this system speaks English only";
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    unsetenv("LANGUAGE");
    unsetenv("OUTPUT_CHARSET");
  }
};

TEST(ErrorText, IsWhatTheSystemSays) {
  EXPECT_EQ(error_text(ENOENT), "No such file or directory");
  EXPECT_NE(error_text(123456).find("123456"), std::string::npos);
}

TEST_F(German, MessagesStayInEnglish) {
  EXPECT_EQ(error_text(EINVAL), "Invalid argument");
  EXPECT_STRNE(std::strerror(EINVAL), "Invalid argument") << "the locale is the host's";
  try {
    InputFile("/nowhere/file");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "cannot open \"/nowhere/file\": No such file or directory");
  }
  try {
    open_plugin("nowhere", "entry");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("cannot open shared object file: No such file"), std::string::npos)
        << e.message();
  }
}

}  // namespace
}  // namespace prefix
