// Products of whole numbers, policies of gemm_impl.h for each width of vectors: A signed, B
// unsigned bytes, sums of 32 bits. A step is four k, a quad of bytes in every lane.
//
// Without VNNI, a quad is two pairs of 16 bits, which vpmaddwd multiplies and adds: numbers 0 and 2
// in the first phase, 1 and 3 in the second. (vpmaddubsw would saturate.) A has them apart
// (GemmKernels::widen_quads), B is taken apart in registers. Sums are exact, so all variants have
// the same bits.
#pragma once

#include <cstdint>

#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/quads.h"

namespace prefix::ops {
namespace {

#if defined(__AVX512BW__)

struct Int8Lanes {
  using B = uint8_t;
  using Vec = __m512i;
  using BVec = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kStep = 4;
  static constexpr int kAccumulators = 24;
  static Vec zero() { return _mm512_setzero_si512(); }
  static Vec load_c(const float* p) { return _mm512_loadu_si512(p); }
  static void store_c(float* p, Vec v) { _mm512_storeu_si512(p, v); }
};

struct Int8ByPairs : Int8Lanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static BVec load_b(const uint8_t* p, int phase) {
    const __m512i quads = _mm512_loadu_si512(p);
    return phase == 0 ? _mm512_and_si512(quads, _mm512_set1_epi16(0xff))
                      : _mm512_srli_epi16(quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm512_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, BVec b) {
    return in_order(_mm512_add_epi32(c, _mm512_madd_epi16(b, a)));
  }
};

#if defined(__AVX512VNNI__)
struct Int8ByVnni : Int8Lanes {
  using A = int8_t;
  static constexpr int kPhases = 1;
  static BVec load_b(const uint8_t* p, int) { return _mm512_loadu_si512(p); }
  static Vec broadcast_a(const int8_t* p, int) { return _mm512_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, BVec b) { return _mm512_dpbusd_epi32(c, b, a); }
};
#endif

#elif defined(__AVX2__)

struct Int8Lanes {
  using B = uint8_t;
  using Vec = __m256i;
  using BVec = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kStep = 4;
  static constexpr int kAccumulators = 12;
  static Vec zero() { return _mm256_setzero_si256(); }
  static Vec load_c(const float* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_c(float* p, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};

struct Int8ByPairs : Int8Lanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static BVec load_b(const uint8_t* p, int phase) {
    const __m256i quads = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return phase == 0 ? _mm256_and_si256(quads, _mm256_set1_epi16(0xff))
                      : _mm256_srli_epi16(quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm256_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, BVec b) {
    return in_order(_mm256_add_epi32(c, _mm256_madd_epi16(b, a)));
  }
};

#if defined(__AVXVNNI__)
struct Int8ByVnni : Int8Lanes {
  using A = int8_t;
  static constexpr int kPhases = 1;
  static BVec load_b(const uint8_t* p, int) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Vec broadcast_a(const int8_t* p, int) { return _mm256_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, BVec b) { return _mm256_dpbusd_avx_epi32(c, b, a); }
};
#endif

#elif !defined(PREFIX_NEON)  // which has int8_neon.h

struct Int8ByPairs {
  using A = int8_t;
  using B = uint8_t;
  using Vec = LevelSimd::I;
  using BVec = Pairs;
  static constexpr int kLanes = 4;
  static constexpr int kStep = 4;
  static constexpr int kPhases = 2;
  static constexpr int kAccumulators = 12;
  static Vec zero() { return Vec{0, 0, 0, 0}; }
  static Vec load_c(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store_c(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
  static Pairs load_b(const uint8_t* p, int phase) {
    Pairs v;
    __builtin_memcpy(&v, p, sizeof v);
    return (phase == 0 ? v : v >> 8) & 255;
  }
  static Pairs broadcast_a(const int8_t* p, int phase) { return pair(p[phase], p[phase + 2]); }
  static Vec mac(Vec c, Pairs a, Pairs b) { return add_products(c, a, b); }
};

#endif

}  // namespace
}  // namespace prefix::ops
