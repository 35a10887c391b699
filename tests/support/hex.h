// Bytes of fixtures, as JSON has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace prefix::testing_support {

inline std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// A digest as golden files have it.
inline std::string hex_of(std::span<const uint8_t> bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

// A number as a file has it, its lowest byte first.
template <typename T>
std::string to_hex(T number) {
  std::array<uint8_t, sizeof(T)> bytes;
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(number);
    number = static_cast<T>(number >> 8);
  }
  return hex_of(bytes);
}

}  // namespace prefix::testing_support
