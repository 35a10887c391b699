// Bytes of fixtures, as JSON has them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace prefix::testing_support {

inline std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace prefix::testing_support
