// Token ids from the command line.
#pragma once

#include <prefix.h>

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Of "1,5,9".
inline std::vector<prefix_token> token_list(std::string_view text) {
  std::vector<prefix_token> tokens;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    prefix_token token = 0;
    const auto [next, error] = std::from_chars(at, end, token);
    if (error != std::errc() || (next != end && *next != ','))
      throw std::invalid_argument("token ids look like 1,5,9, not like " + std::string(text));
    tokens.push_back(token);
    if (next == end) return tokens;
    at = next + 1;
  }
}
