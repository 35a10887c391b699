// A mutator for texts of JSON: libFuzzer's own changes bytes, which seldom leaves a value whole.
// Half of the time this one puts a value in the place of another instead: one from elsewhere in the
// text, one that parsers get wrong, or none. It looks for brackets, quotes and commas only, and so
// works on texts that are not quite JSON.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

constexpr std::array<std::string_view, 30> kOdd = {"0",
                                                   "-1",
                                                   "1",
                                                   "2",
                                                   "31",
                                                   "32",
                                                   "33",
                                                   "65536",
                                                   "2147483647",
                                                   "2147483648",
                                                   "-2147483649",
                                                   "4294967295",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "18446744073709551615",
                                                   "-9223372036854775808",
                                                   "1e400",
                                                   "1e-400",
                                                   "0.5",
                                                   "-0",
                                                   "NaN",
                                                   "null",
                                                   "true",
                                                   "false",
                                                   "\"\"",
                                                   "\"\\u0000\"",
                                                   "\"\\ud800\"",
                                                   "[]",
                                                   "{}",
                                                   "[[]]"};

struct Span {
  size_t begin, end;
};

// Every value and every key: what stands between the marks of JSON, strings whole, and what a
// bracket holds.
std::vector<Span> values_of(std::string_view text) {
  std::vector<Span> values;
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      open.push_back(i++);
    } else if (c == '}' || c == ']') {
      ++i;
      if (open.empty()) continue;
      values.push_back({open.back(), i});
      open.pop_back();
    } else if (c == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      values.push_back({i, end});
      i = end;
    } else if (std::strchr(",: \t\r\n", c)) {
      ++i;
    } else {
      const size_t end = std::min(text.find_first_of(",:{}[]\" \t\r\n", i), text.size());
      values.push_back({i, end});
      i = end;
    }
  }
  return values;
}

std::string mutated(std::string_view text, std::minstd_rand& random) {
  const std::vector<Span> values = values_of(text);
  if (values.empty()) return std::string(kOdd[random() % kOdd.size()]);
  const auto any = [&] { return values[random() % values.size()]; };
  const auto text_of = [&](Span s) { return text.substr(s.begin, s.end - s.begin); };
  Span place = any();
  std::string fresh;
  switch (random() % 6) {
    case 0:
    case 1:
      fresh = text_of(any());
      break;
    case 2:
    case 3:
      fresh = kOdd[random() % kOdd.size()];
      break;
    case 4:  // once more behind itself: in a list one more value, in an object a key twice
      fresh = std::string(text_of(place)) + "," + std::string(text_of(any()));
      break;
    default:  // gone, with one comma
      if (place.end < text.size() && text[place.end] == ',') ++place.end;
      break;
  }
  return std::string(text.substr(0, place.begin)) + fresh + std::string(text.substr(place.end));
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (size_t n = 1 + random() % 3; n > 0; --n) text = mutated(text, random);
  const size_t length = std::min(text.size(), most);
  std::copy_n(text.begin(), length, data);
  return length;
}

// A value of one text in the place of a value of another.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size,
                                            const uint8_t* second, size_t second_size, uint8_t* out,
                                            size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  const std::string_view into(reinterpret_cast<const char*>(first), first_size);
  const std::string_view from(reinterpret_cast<const char*>(second), second_size);
  const std::vector<Span> places = values_of(into), values = values_of(from);
  if (places.empty() || values.empty()) return 0;
  const Span place = places[random() % places.size()], value = values[random() % values.size()];
  std::string text(into.substr(0, place.begin));
  text += from.substr(value.begin, value.end - value.begin);
  text += into.substr(place.end);
  const size_t length = std::min(text.size(), most);
  std::copy_n(text.begin(), length, out);
  return length;
}
