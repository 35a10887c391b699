#include "base/elementary.h"

#include <cmath>
#include <limits>

namespace prefix {
namespace {

// ln 2 and pi / 2 in parts: the first ones have so few bits that a
// whole number times them is exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPiParts[] = {0x1.921fb54000000p+0, 0x1.10b4610000000p-30,
                                   0x1.a626330000000p-58, 0x1.45c06e0e68948p-86};

// c[0] + x (c[1] + x (..)), the terms of a series.
template <int kTerms>
double polynomial(const double (&c)[kTerms], double x) {
  double sum = c[kTerms - 1];
  for (int i = kTerms - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// Of a quarter turn: sin and cos of |x| <= pi / 4.
double series_sin(double x) {
  constexpr double kTerms[] = {
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double z = x * x;
  return x + x * (z * polynomial(kTerms, z));
}
double series_cos(double x) {
  constexpr double kTerms[] = {
      1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
  const double z = x * x;
  const double half = 0.5 * z, most = 1 - half;
  return most + ((1 - most) - half + z * (z * polynomial(kTerms, z)));
}

// sin(x + turns pi / 2)
double turned(double x, int turns) {
  const double n = std::nearbyint(x * (2 / 3.14159265358979323846));
  double rest = x;
  for (const double part : kHalfPiParts) rest -= n * part;
  switch ((static_cast<long>(n) + turns) & 3) {
    case 0:
      return series_sin(rest);
    case 1:
      return series_cos(rest);
    case 2:
      return -series_sin(rest);
    default:
      return -series_cos(rest);
  }
}

}  // namespace

double portable_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.7) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  constexpr double kTerms[] = {1.0 / 2,          1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,        1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800,    1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
                               1.0 / 87178291200};
  const double n = std::nearbyint(x * 1.4426950408889634074);
  const double high = x - n * kLn2High, low = n * kLn2Low;
  const double r = high - low;
  const double lost = (high - r) - low;
  return std::ldexp(1 + (r + (lost + r * r * polynomial(kTerms, r))), static_cast<int>(n));
}

double portable_log(double x) {
  if (std::isnan(x) || x == std::numeric_limits<double>::infinity()) return x;
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  int e = 0;
  double m = std::frexp(x, &e);  // [1/2, 1)
  if (m < 0.70710678118654752440) {
    m *= 2;
    --e;
  }
  // log m = 2 atanh s; f - s f + s (the rest of the series) is more exact than 2 s (..).
  constexpr double kTerms[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  const double f = m - 1, s = f / (2 + f), z = s * s;
  const double small = s * (z * polynomial(kTerms, z)) - s * f + e * kLn2Low;
  return e * kLn2High + (f + small);
}

double portable_pow(double x, double y) { return portable_exp(y * portable_log(x)); }
double portable_sin(double x) { return turned(x, 0); }
double portable_cos(double x) { return turned(x, 1); }

double portable_tanh(double x) {
  // Near 0 the difference below would cancel.
  if (std::abs(x) < 0.3) {
    constexpr double kTerms[] = {-1.0 / 3,
                                 2.0 / 15,
                                 -17.0 / 315,
                                 62.0 / 2835,
                                 -1382.0 / 155925,
                                 21844.0 / 6081075,
                                 -929569.0 / 638512875,
                                 6404582.0 / 10854718875,
                                 -443861162.0 / 1856156927625,
                                 18888466084.0 / 194896477400625};
    const double z = x * x;
    return x * (1 + z * polynomial(kTerms, z));  // -0 for -0
  }
  return 1 - 2 / (1 + portable_exp(2 * x));
}

}  // namespace prefix
