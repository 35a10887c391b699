// The C++ locale of a host that writes 1234567.5 otherwise than C does. It needs no locale of the
// system.
#pragma once

#include <locale>
#include <string>

namespace prefix::testing_support {

// Global while it lives: two digits in a group, `separator` between them, and a decimal comma.
class GroupedLocale {
 public:
  explicit GroupedLocale(char separator)
      : before_(
            std::locale::global(std::locale(std::locale::classic(), new Punctuation(separator)))) {}
  GroupedLocale(const GroupedLocale&) = delete;
  GroupedLocale& operator=(const GroupedLocale&) = delete;
  ~GroupedLocale() { std::locale::global(before_); }

 private:
  struct Punctuation final : std::numpunct<char> {
    explicit Punctuation(char s) : separator(s) {}
    char do_thousands_sep() const override { return separator; }
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\2"; }
    const char separator;
  };

  std::locale before_;
};

}  // namespace prefix::testing_support
