#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/sha256_compress.h"

namespace prefix {
namespace sha256_detail {

void compress_portable(uint32_t* state, const std::byte* blocks, size_t count) {
  for (; count > 0; --count, blocks += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i) {
      const std::byte* const at = blocks + 4 * i;
      w[i] = std::to_integer<uint32_t>(at[0]) << 24 | std::to_integer<uint32_t>(at[1]) << 16 |
             std::to_integer<uint32_t>(at[2]) << 8 | std::to_integer<uint32_t>(at[3]);
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }
}

}  // namespace sha256_detail

bool sha256_path_runs(Sha256Path path) {
  return path != Sha256Path::kShaNi || sha256_detail::sha_ni_runs();
}

Sha256::Sha256(Sha256Path path)
    : compress_(path != Sha256Path::kPortable && sha256_detail::sha_ni_runs()
                    ? sha256_detail::compress_sha_ni
                    : sha256_detail::compress_portable),
      state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

Sha256& Sha256::update(std::span<const std::byte> data) {
  if (data.empty()) return *this;  // its pointer may be null
  total_ += data.size();
  if (filled_ > 0) {
    const size_t n = std::min(data.size(), block_.size() - filled_);
    std::memcpy(block_.data() + filled_, data.data(), n);
    filled_ += n;
    data = data.subspan(n);
    if (filled_ < block_.size()) return *this;
    compress_(state_.data(), block_.data(), 1);
    filled_ = 0;
  }
  const size_t blocks = data.size() / 64;
  if (blocks > 0) compress_(state_.data(), data.data(), blocks);
  data = data.subspan(blocks * 64);
  if (!data.empty()) std::memcpy(block_.data(), data.data(), data.size());
  filled_ = data.size();
  return *this;
}

Sha256::Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  block_[filled_++] = std::byte{0x80};
  if (filled_ > 56) {  // no room left for the length
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::byte{0});
    compress_(state_.data(), block_.data(), 1);
    filled_ = 0;
  }
  std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::byte{0});
  for (size_t i = 0; i < 8; ++i) block_[63 - i] = static_cast<std::byte>(bits >> 8 * i);
  compress_(state_.data(), block_.data(), 1);
  Digest digest;
  for (size_t i = 0; i < 32; ++i)
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

}  // namespace prefix
