#include "ops/rotation.h"

#include <array>

namespace prefix::ops {

// The bits of SplitMix64 (Steele, Lea, Flood 2014), seeded by k.
void fill_rotation_signs(int64_t k, float* signs) {
  uint64_t state = static_cast<uint64_t>(k);
  for (int64_t i = 0; i < k; ++i) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    signs[i] = ((z >> 31 ^ z) & 1) == 0 ? 1.0f : -1.0f;
  }
}

const float* no_signs() {
  static constexpr auto kOnes = [] {
    std::array<float, kMaxHeadRotation> ones{};
    ones.fill(1.0f);
    return ones;
  }();
  return kOnes.data();
}

void turn_back(int64_t k, const float* signs, float scale, float* row) {
  const int64_t block = rotation_block(k);
  const float factor = scale / static_cast<float>(block);
  for (int64_t stride = block / 2; stride >= 1; stride /= 2) {
    for (int64_t first = 0; first < k; first += 2 * stride) {
      for (int64_t i = first; i < first + stride; ++i) {
        const float a = row[i], b = row[i + stride];
        row[i] = a + b;
        row[i + stride] = a - b;
      }
    }
  }
  for (int64_t i = 0; i < k; ++i) row[i] *= factor * signs[i];
}

}  // namespace prefix::ops
