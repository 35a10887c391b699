#include "base/error_text.h"

#include <string.h>

namespace prefix {
namespace {

locale_t plain_locale() {
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", locale_t{});  // it is always there
  return kPlain;
}

}  // namespace

PlainLocale::PlainLocale() : before_(uselocale(plain_locale())) {}
PlainLocale::~PlainLocale() { uselocale(before_); }

std::string error_text(int error) { return strerror_l(error, plain_locale()); }

}  // namespace prefix
