#include "base/quote.h"

#include <gtest/gtest.h>

namespace prefix {
namespace {

TEST(Quote, KeepsWhatCanBePrinted) {
  EXPECT_EQ(quote(""), "\"\"");
  EXPECT_EQ(quote("blk.0.attn_q"), "\"blk.0.attn_q\"");
  EXPECT_EQ(quote("h\xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80"),
            "\"h\xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80\"");
}

TEST(Quote, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(quote(std::string_view("a\0b\n\x7f", 5)), "\"a\\x00b\\x0a\\x7f\"");
  EXPECT_EQ(quote("\xff\xfe"), "\"\\xff\\xfe\"");
  EXPECT_EQ(quote("\xc3"), "\"\\xc3\"");                             // cut short
  EXPECT_EQ(quote("\xc0\xaf"), "\"\\xc0\\xaf\"");                    // overlong
  EXPECT_EQ(quote("\xe0\x80\xaf"), "\"\\xe0\\x80\\xaf\"");           // overlong
  EXPECT_EQ(quote("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");           // surrogate
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");  // beyond U+10FFFF
  EXPECT_EQ(quote("\xc2\x9b"), "\"\\xc2\\x9b\"");                    // C1 control
}

TEST(Quote, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(quote("abcdef", 6), "\"abcdef\"");
  EXPECT_EQ(quote("abcdefg", 6), "\"abcdef...\"");
  EXPECT_EQ(quote("abc\xe2\x82\xac", 5), "\"abc...\"");
  EXPECT_EQ(quote("abc\xe2\x82\xac", 6), "\"abc\xe2\x82\xac\"");
}

}  // namespace
}  // namespace prefix
