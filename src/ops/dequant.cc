#include "ops/dequant.h"

#include <array>
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

// Where the 2-bit quants of 256 values lie in 64 bytes:
// each half of the values takes 32 of them, and every 32 values the next two bits.
int two_bits(const uint8_t* q, int value) {
  return q[value / 128 * 32 + value % 32] >> (value / 32 % 4 * 2) & 3;
}

// Q2_K: 16 bytes of scales (low) and minima (high nibble), one for 16 values,
// 64 bytes, d, dmin f16.
void q2_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 80);
  const float dmin = half_at(b + 82);
  for (int j = 0; j < 16; ++j) {
    const float ds = d * static_cast<float>(b[j] & 15);
    const float ms = dmin * static_cast<float>(b[j] >> 4);
    for (int i = 16 * j; i < 16 * j + 16; ++i)
      out[i] = ds * static_cast<float>(two_bits(b + 16, i)) - ms;
  }
}

// Q3_K: 32 bytes whose bit v / 32 is the third bit of value v, 64 bytes, 12 bytes of 6-bit scales,
// d f16. The scales: 16 nibbles, the low ones of 8 bytes first, then four times two bits a byte.
void q3_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 108);
  const uint8_t* scales = b + 96;
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
    const int high = scales[8 + j % 4] >> (j / 4 * 2) & 3;
    const float ds = d * static_cast<float>((low | high << 4) - 32);
    for (int i = 16 * j; i < 16 * j + 16; ++i) {
      const int third = b[i % 32] >> (i / 32) & 1;
      out[i] = ds * static_cast<float>(two_bits(b + 32, i) - (third ? 0 : 4));
    }
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

// 32 values of 4 bits that stand for numbers of a table, lying as in Q4_0.
void of_table(float d, const uint8_t* nibbles, const int8_t (&table)[16], float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(table[nibbles[i] & 15]);
    out[i + 16] = d * static_cast<float>(table[nibbles[i] >> 4]);
  }
}

constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// IQ4_NL: scale f16, 16 bytes.
void iq4_nl(const uint8_t* b, float* out) { of_table(half_at(b), b + 2, kNonLinear, out); }

// IQ4_XS: d f16, 16 bits with the upper two bits of 8 scales, 4 bytes with their low nibbles, 128
// bytes: 8 sub-blocks of 32.
void iq4_xs(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const auto high = load<uint16_t>(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int scale = (b[4 + j / 2] >> (j % 2 * 4) & 15) | (high >> (2 * j) & 3) << 4;
    of_table(d * static_cast<float>(scale - 32), b + 8 + 16 * j, kNonLinear, out + 32 * j);
  }
}

// MXFP4: scale E8M0, 16 bytes of E2M1. The table has twice their values, so the scale is halved.
void mxfp4(const uint8_t* b, float* out) {
  static constexpr int8_t kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t half = b[0] < 2 ? 0x00200000u << b[0] : (b[0] - 1u) << 23;
  of_table(std::bit_cast<float>(half), b + 1, kTwice, out);
}

// F8_E4M3 of OCP: no infinities, one NaN of each sign.
constexpr float e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7f;
  const uint32_t sign = (code & 0x80) << 24;
  // As in half_to_float(), the bits where a float has them are right but for a factor.
  float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  if (magnitude == 0x7f) value = std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// Of all codes: processors multiply subnormal numbers slowly.
constexpr std::array<float, 256> kE4M3 = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) values[code] = e4m3(code);
  return values;
}();

// F8_E8M0: 2^(code - 127); 255 is NaN.
float e8m0(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : code == 255 ? 0x7fc00000u : uint32_t{code} << 23;
  return std::bit_cast<float>(bits);
}

template <typename T>
void numbers(const uint8_t* data, int64_t values, float* out) {
  for (int64_t i = 0; i < values; ++i)
    out[i] = static_cast<float>(load<T>(data + i * static_cast<int64_t>(sizeof(T))));
}

template <void (*Block)(const uint8_t*, float*)>
void blocks(const uint8_t* data, int64_t values, int64_t per_block, int64_t bytes, float* out) {
  for (int64_t i = 0; i < values / per_block; ++i) Block(data + i * bytes, out + i * per_block);
}

}  // namespace

void scale_and_minimum(const uint8_t* s, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = s[j] & 63;
    *minimum = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

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
    case TensorType::kQ2_K:
      return blocks<q2_k>(b, values, per, bytes, out);
    case TensorType::kQ3_K:
      return blocks<q3_k>(b, values, per, bytes, out);
    case TensorType::kQ4_K:
      return blocks<q4_k>(b, values, per, bytes, out);
    case TensorType::kQ5_K:
      return blocks<q5_k>(b, values, per, bytes, out);
    case TensorType::kQ6_K:
      return blocks<q6_k>(b, values, per, bytes, out);
    case TensorType::kIQ4_NL:
      return blocks<iq4_nl>(b, values, per, bytes, out);
    case TensorType::kIQ4_XS:
      return blocks<iq4_xs>(b, values, per, bytes, out);
    case TensorType::kMXFP4:
      return blocks<mxfp4>(b, values, per, bytes, out);
    case TensorType::kI8:
      return numbers<int8_t>(b, values, out);
    case TensorType::kU8:
      return numbers<uint8_t>(b, values, out);
    case TensorType::kI32:
      return numbers<int32_t>(b, values, out);
    case TensorType::kI64:
      return numbers<int64_t>(b, values, out);
    case TensorType::kF8_E4M3:
      for (int64_t i = 0; i < values; ++i) out[i] = kE4M3[b[i]];
      break;
    case TensorType::kF8_E8M0:
      for (int64_t i = 0; i < values; ++i) out[i] = e8m0(b[i]);
      break;
    case TensorType::kUnread:
      break;
  }
}

}  // namespace prefix::ops
