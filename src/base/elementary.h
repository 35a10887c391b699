// exp, log, pow, sin, cos and tanh in double precision, of additions, products and quotients alone:
// the same bits on every machine and with every C library, whose own functions differ in the last
// bit. Within two units of it, cosines next to zero within two and a half, tanh within six; pow
// within |y log x| units.
#pragma once

namespace prefix {

double portable_exp(double x);            // +0 below -745, infinity above 709
double portable_log(double x);            // of x > 0; -infinity at 0
double portable_pow(double x, double y);  // of x > 0
double portable_sin(double x);            // of |x| < 2^25
double portable_cos(double x);
double portable_tanh(double x);

}  // namespace prefix
