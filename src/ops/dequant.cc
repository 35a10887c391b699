#include "ops/dequant.h"

#include <bit>
#include <cstring>

namespace prefix::ops {
namespace {

template <typename T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

float half_at(const uint8_t* p) { return half_to_float(load<uint16_t>(p)); }

// Q4_0: scale f16, 16 bytes; value i (low nibble) and i + 16 (high nibble) of byte i.
void q4_0(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

// Q4_1: scale and minimum f16, then nibbles as in Q4_0.
void q4_1(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

// The fifth bit of value i is bit i of a 32-bit word.
void q5(const uint8_t* b, int header, int* q) {
  const auto high = load<uint32_t>(b + header);
  const uint8_t* nibbles = b + header + 4;
  for (int i = 0; i < 16; ++i) {
    q[i] = (nibbles[i] & 15) | static_cast<int>(high >> i & 1) << 4;
    q[i + 16] = (nibbles[i] >> 4) | static_cast<int>(high >> (i + 16) & 1) << 4;
  }
}

void q5_0(const uint8_t* b, float* out) {
  int q[32];
  q5(b, 2, q);
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 16);
}

void q5_1(const uint8_t* b, float* out) {
  int q[32];
  q5(b, 4, q);
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

void q8_0(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(b[2 + i])) * d;
}

// The 6-bit scale and minimum of sub-block j, packed into 12 bytes.
void scale_and_minimum(const uint8_t* s, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = s[j] & 63;
    *minimum = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

// Q4_K: d, dmin f16, 12 bytes of scales, 128 bytes; 8 sub-blocks of 32, two to 32 bytes.
void q4_k(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    scale_and_minimum(b + 4, j, &scale, &minimum);
    const float ds = d * static_cast<float>(scale);
    const float ms = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 16 + j / 2 * 32;
    for (int i = 0; i < 32; ++i)
      out[32 * j + i] = ds * static_cast<float>(j % 2 ? q[i] >> 4 : q[i] & 15) - ms;
  }
}

// Q5_K: as Q4_K, with 32 bytes between whose bit j is the fifth bit in sub-block j.
void q5_k(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  const uint8_t* high = b + 16;
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    scale_and_minimum(b + 4, j, &scale, &minimum);
    const float ds = d * static_cast<float>(scale);
    const float ms = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 48 + j / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = j % 2 ? q[i] >> 4 : q[i] & 15;
      out[32 * j + i] = ds * static_cast<float>(low | (high[i] >> j & 1) << 4) - ms;
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, d f16. Each half
// of 128 values takes 64 low bytes and 32 upper bytes.
void q6_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = b + 64 * half;
    const uint8_t* high = b + 128 + 32 * half;
    const uint8_t* scales = b + 192 + 8 * half;
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = low[i + 32 * (part & 1)];
        const int q = ((part < 2 ? byte & 15 : byte >> 4) | (high[i] >> (2 * part) & 3) << 4) - 32;
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[2 * part + i / 16]));
        out[128 * half + 32 * part + i] = scale * static_cast<float>(q);
      }
    }
  }
}

template <void (*Block)(const uint8_t*, float*)>
void blocks(const uint8_t* data, int64_t values, int64_t per_block, int64_t bytes, float* out) {
  for (int64_t i = 0; i < values / per_block; ++i) Block(data + i * bytes, out + i * per_block);
}

}  // namespace

// Exact for every half, without a branch, so that loops over it vectorise. The 15 bits are put
// where a float has them and scaled by 2^112, which also makes normal numbers of subnormal halves;
// infinities and NaNs get the exponent that the scaling cannot give them.
float half_to_float(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  const uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000 : 0;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

void dequantise(TensorType type, const std::byte* data, int64_t values, float* out) {
  const auto* b = reinterpret_cast<const uint8_t*>(data);
  const int64_t per = block_values(type);
  const int64_t bytes = block_bytes(type);
  switch (type) {
    case TensorType::kF32:
      std::memcpy(out, b, static_cast<size_t>(values) * 4);
      break;
    case TensorType::kF16:
      for (int64_t i = 0; i < values; ++i) out[i] = half_at(b + 2 * i);
      break;
    case TensorType::kBF16:
      for (int64_t i = 0; i < values; ++i) {
        const uint32_t bits = static_cast<uint32_t>(load<uint16_t>(b + 2 * i)) << 16;
        std::memcpy(out + i, &bits, 4);
      }
      break;
    case TensorType::kQ8_0:
      return blocks<q8_0>(b, values, per, bytes, out);
    case TensorType::kQ4_0:
      return blocks<q4_0>(b, values, per, bytes, out);
    case TensorType::kQ4_1:
      return blocks<q4_1>(b, values, per, bytes, out);
    case TensorType::kQ5_0:
      return blocks<q5_0>(b, values, per, bytes, out);
    case TensorType::kQ5_1:
      return blocks<q5_1>(b, values, per, bytes, out);
    case TensorType::kQ4_K:
      return blocks<q4_k>(b, values, per, bytes, out);
    case TensorType::kQ5_K:
      return blocks<q5_k>(b, values, per, bytes, out);
    case TensorType::kQ6_K:
      return blocks<q6_k>(b, values, per, bytes, out);
  }
}

}  // namespace prefix::ops
