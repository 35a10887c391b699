// SHA-256 as in FIPS 180-4, a second time: what that of the library must agree with.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace prefix::testing_support {

// First 32 bits of the fractional part of the cube roots of the first 64 primes, computed with
// integers: the largest x with x^3 <= prime * 2^96.
inline std::array<uint32_t, 64> sha256_constants() {
  std::array<uint32_t, 64> k{};
  size_t found = 0;
  for (uint64_t n = 2; found < 64; ++n) {
    bool prime = true;
    for (uint64_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    __extension__ using Wide = unsigned __int128;
    uint64_t root = 0;
    for (int bit = 35; bit >= 0; --bit) {
      const uint64_t x = root | uint64_t{1} << bit;
      const Wide square = Wide{x} * x;
      // x^3 <= n * 2^96, without passing 128 bits: square <= n * 2^96 / x.
      if (square <= (Wide{n} << 96) / x) root = x;
    }
    k[found++] = static_cast<uint32_t>(root);
  }
  return k;
}

inline std::string sha256(std::span<const std::byte> data) {
  static const std::array<uint32_t, 64> k = sha256_constants();
  std::array<uint32_t, 8> h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto block = [&](const uint8_t* p) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
      w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 |
             p[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<uint32_t, 8> v = h;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
      const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
      const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
      const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < 8; ++i) h[i] += v[i];
  };
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  size_t at = 0;
  for (; data.size() - at >= 64; at += 64) block(bytes + at);
  std::vector<uint8_t> tail(bytes + at, bytes + data.size());
  tail.push_back(0x80);
  while (tail.size() % 64 != 56) tail.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8)
    tail.push_back(static_cast<uint8_t>(uint64_t{data.size()} * 8 >> shift));
  for (size_t i = 0; i < tail.size(); i += 64) block(tail.data() + i);
  std::string hex;
  for (const uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  return hex;
}

}  // namespace prefix::testing_support
