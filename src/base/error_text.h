// What the system says of a failure, in the language and encoding of all other messages: by itself
// it speaks those of the host's locale, and a text in Latin-1 is no UTF-8.
#pragma once

#include <locale.h>

#include <string>

namespace prefix {

// While it lives, this thread has the locale "C", whatever the host has set.
class PlainLocale {
 public:
  PlainLocale();
  ~PlainLocale();
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

 private:
  const locale_t before_;
};

// Of a value of errno.
std::string error_text(int error);

}  // namespace prefix
