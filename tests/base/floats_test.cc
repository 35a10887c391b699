#include "base/floats.h"

#include <fenv.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "base/json.h"
#include "base/status.h"

namespace prefix {
namespace {

// Not constants, or the compiler divides.
volatile double one = 1, three = 3;

class Floats : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { ASSERT_EQ(fesetround(GetParam()), 0); }
  void TearDown() override { fesetenv(FE_DFL_ENV); }
};

// Numbers of configs are read so, and those of messages written.
TEST_P(Floats, NeitherSumsNorDecimalNumbersDependOnHowTheHostRounds) {
  {
    const PlainFloats floats;
    EXPECT_EQ(fegetround(), FE_TONEAREST);
    EXPECT_EQ(one / three, 0x1.5555555555555p-2);
    for (const auto& [text, number] :
         {std::pair("1e-6", 0x1.0c6f7a0b5ed8dp-20), std::pair("0.1", 0x1.999999999999ap-4)}) {
      EXPECT_EQ(std::strtod(text, nullptr), number) << text;
      EXPECT_EQ(parse_json(text, "a number").get<double>(), number) << text;
    }
    EXPECT_EQ(cat(0.1), "0.1");
    EXPECT_EQ(cat(2.0 / 3), "0.666667");
  }
  EXPECT_EQ(fegetround(), GetParam()) << "the setting is the host's";
}

INSTANTIATE_TEST_SUITE_P(OfAHost, Floats,
                         ::testing::Values(FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO));

#if defined(__x86_64__)
TEST(FloatsOfAHost, NumbersBelowTheNormalOnesStay) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // FTZ and DAZ
  volatile float small = 0x1p-120f, factor = 0x1p-20f, product;
  {
    const PlainFloats floats;
    product = small * factor;
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(product, 0x1p-140f);
  EXPECT_EQ(after & 0x8040, 0x8040u) << "the setting is the host's";
}
#endif

}  // namespace
}  // namespace prefix
