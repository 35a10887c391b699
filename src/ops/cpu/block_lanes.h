// Vectors of 32-bit lanes for products with weights in blocks (blocks_impl.h): a lane has four
// codes of one column, a sum, or an f32. One struct for each level; fma() rounds once in all of
// them. kByWords: bytes are multiplied to words of 16 bits, of which byte_products() and the
// functions around it are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/block_layout.h"
#include "ops/cpu/quads.h"

#if !defined(__AVX2__)
#include "ops/cpu/exact_fma.h"
#endif

namespace prefix::ops {
namespace {

#if defined(__AVX512BW__)

// The maskz forms: g++ 12 warns about the undefined pass-through of the plain ones.
struct BlockLanes {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 24;  // registers for sums and results

  static I load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, I v) { _mm512_storeu_si512(p, v); }
  static I set1(int32_t x) { return _mm512_set1_epi32(x); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  template <uint8_t kMask>
  static I bits(I v) {
    return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(kMask)));
  }
  // To the right, or to the left by a negative number.
  static I shifted(I v, int by) {
    return by >= 0 ? _mm512_maskz_srli_epi32(0xffff, v, static_cast<unsigned>(by))
                   : _mm512_maskz_slli_epi32(0xffff, v, static_cast<unsigned>(-by));
  }
  template <CodeTable kTable>
  static I look_up(I places) {
    __m128i table;
    __builtin_memcpy(&table, numbers_of(kTable), sizeof table);
    return _mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(0xffff, table), places);
  }

  static I broadcast(const void* p) { return _mm512_set1_epi32(quad_of(p)); }
#if defined(__AVX512VNNI__)
  static constexpr bool kByWords = false;
  static I dot(I sum, I codes, I x) { return _mm512_dpbusd_epi32(sum, codes, x); }
#else
  static constexpr bool kByWords = true;
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I add_words(I a, I b) { return _mm512_add_epi16(a, b); }
  static I byte_products(I codes, I x) { return _mm512_maddubs_epi16(codes, x); }
  static I word_products(I a, I b) { return _mm512_madd_epi16(a, b); }
  static I pair_sums(I words) { return _mm512_madd_epi16(words, _mm512_set1_epi16(1)); }
  static I even_bytes(I codes) { return _mm512_and_si512(codes, _mm512_set1_epi16(0xff)); }
  static I odd_bytes(I codes) { return _mm512_srli_epi16(codes, 8); }
  // Numbers 0 and 2 of a quad come first, 1 and 3 then.
  static I dot(I sum, I codes, I x) {
    const I even = _mm512_madd_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0xff)),
                                     _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    const I odd = _mm512_madd_epi16(_mm512_srli_epi16(codes, 8), _mm512_srai_epi16(x, 8));
    return in_order(_mm512_add_epi32(sum, _mm512_add_epi32(even, odd)));
  }
#endif

  static F set1_f32(float x) { return _mm512_set1_ps(x); }
  static F load_f32(const float* p) { return _mm512_loadu_ps(p); }
  static void store_f32(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F from_i32(I v) { return _mm512_maskz_cvtepi32_ps(0xffff, v); }
  static F half(const std::byte* p) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F bf16(const std::byte* p) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, halves), 16));
  }
  static F from_u8(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return from_i32(_mm512_maskz_cvtepu8_epi32(0xffff, bytes));
  }
  static F from_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return from_i32(_mm512_maskz_cvtepi8_epi32(0xffff, bytes));
  }
};

#elif defined(__AVX2__)

struct BlockLanes {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kAccumulators = 12;

  static I load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static I set1(int32_t x) { return _mm256_set1_epi32(x); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  template <uint8_t kMask>
  static I bits(I v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(kMask)));
  }
  static I shifted(I v, int by) {
    return by >= 0 ? _mm256_srli_epi32(v, by) : _mm256_slli_epi32(v, -by);
  }
  template <CodeTable kTable>
  static I look_up(I places) {
    __m128i table;
    __builtin_memcpy(&table, numbers_of(kTable), sizeof table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), places);
  }

  static I broadcast(const void* p) { return _mm256_set1_epi32(quad_of(p)); }
#if defined(__AVXVNNI__)
  static constexpr bool kByWords = false;
  static I dot(I sum, I codes, I x) { return _mm256_dpbusd_avx_epi32(sum, codes, x); }
#else
  static constexpr bool kByWords = true;
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I add_words(I a, I b) { return _mm256_add_epi16(a, b); }
  static I byte_products(I codes, I x) { return _mm256_maddubs_epi16(codes, x); }
  static I word_products(I a, I b) { return _mm256_madd_epi16(a, b); }
  static I pair_sums(I words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }
  static I even_bytes(I codes) { return _mm256_and_si256(codes, _mm256_set1_epi16(0xff)); }
  static I odd_bytes(I codes) { return _mm256_srli_epi16(codes, 8); }
  static I dot(I sum, I codes, I x) {
    const I even = _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0xff)),
                                     _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    const I odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
    return in_order(_mm256_add_epi32(sum, _mm256_add_epi32(even, odd)));
  }
#endif

  static F set1_f32(float x) { return _mm256_set1_ps(x); }
  static F load_f32(const float* p) { return _mm256_loadu_ps(p); }
  static void store_f32(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F from_i32(I v) { return _mm256_cvtepi32_ps(v); }
  static F half(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F bf16(const std::byte* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static F from_u8(const std::byte* p) {
    return from_i32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static F from_i8(const std::byte* p) {
    return from_i32(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
};

#elif defined(PREFIX_NEON)

struct BlockLanes {
  using I = int32x4_t;
  using F = float32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kAccumulators = 24;
  static constexpr bool kByWords = false;

  static I load(const std::byte* p) { return load_vector<I>(p); }
  static void store(void* p, I v) { __builtin_memcpy(p, &v, sizeof v); }
  static I set1(int32_t x) { return vdupq_n_s32(x); }
  static I either(I a, I b) { return vorrq_s32(a, b); }
  template <uint8_t kMask>
  static I bits(I v) {
    return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(v), vdupq_n_u8(kMask)));
  }
  // Bits of a neighbour come into a byte; bits() is behind it.
  static I shifted(I v, int by) { return by >= 0 ? v >> by : v << -by; }
  template <CodeTable kTable>
  static I look_up(I places) {
    const uint8x16_t table = load_vector<uint8x16_t>(numbers_of(kTable));
    return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(places)));
  }
  // Codes of 8 bits less 128: both factors of a product are signed.
  static I less_128(I codes) {
    return vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(codes), vdupq_n_u8(0x80)));
  }

  static I broadcast(const void* p) { return vdupq_n_s32(quad_of(p)); }
  static I dot(I sum, I codes, I x) {
    return dot_quads(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(x));
  }

  static F set1_f32(float x) { return vdupq_n_f32(x); }
  static F load_f32(const float* p) { return vld1q_f32(p); }
  static void store_f32(float* p, F v) { vst1q_f32(p, v); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F from_i32(I v) { return vcvtq_f32_s32(v); }
  static F half(const std::byte* p) { return vcvt_f32_f16(load_vector<float16x4_t>(p)); }
  static F bf16(const std::byte* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(load_vector<uint16x4_t>(p), 16));
  }
  static F from_u8(const std::byte* p) {
    const uint16x4_t words = vget_low_u16(vmovl_u8(bytes(p)));
    return vcvtq_f32_u32(vmovl_u16(words));
  }
  static F from_i8(const std::byte* p) {
    const int16x4_t words = vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes(p))));
    return vcvtq_f32_s32(vmovl_s16(words));
  }

 private:
  static uint8x8_t bytes(const std::byte* p) { return vreinterpret_u8_s32(vdup_n_s32(quad_of(p))); }
};

#else

struct BlockLanes {
  typedef int32_t I __attribute__((vector_size(16)));
  typedef float F __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kAccumulators = 12;
  static constexpr bool kByWords = false;

  static I load(const std::byte* p) {
    I v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(void* p, I v) { __builtin_memcpy(p, &v, sizeof v); }
  static I set1(int32_t x) { return I{x, x, x, x}; }
  static I either(I a, I b) { return a | b; }
  template <uint8_t kMask>
  static I bits(I v) {
    return v & (kMask * 0x01010101);
  }
  // Bits of a neighbour come into a byte; bits() is behind it.
  static I shifted(I v, int by) { return by >= 0 ? v >> by : v << -by; }
  template <CodeTable kTable>
  static I look_up(I places) {
    uint8_t codes[16];
    __builtin_memcpy(codes, &places, sizeof codes);
    for (uint8_t& code : codes) code = numbers_of(kTable)[code];
    __builtin_memcpy(&places, codes, sizeof codes);
    return places;
  }

  static I broadcast(const int8_t* p) { return set1(quad_of(p)); }
  static I dot(I sum, I codes, I x) {
    PREFIX_UNROLL
    for (int at = 0; at < 32; at += 8) sum += (codes >> at & 255) * (x << (24 - at) >> 24);
    return sum;
  }

  static F set1_f32(float x) { return F{x, x, x, x}; }
  static F load_f32(const float* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store_f32(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  static F mul(F a, F b) { return a * b; }
  // Not inlined: the hundreds of calls of these two were two fifths of what the
  // compiler spent on these products.
  [[gnu::noinline]] static F fma(F a, F b, F c) {
    return F{exact_fma(a[0], b[0], c[0]), exact_fma(a[1], b[1], c[1]), exact_fma(a[2], b[2], c[2]),
             exact_fma(a[3], b[3], c[3])};
  }
  static F from_i32(I v) { return __builtin_convertvector(v, F); }
  [[gnu::noinline]] static F half(const std::byte* p) {
    F v;
    for (int i = 0; i < kLanes; ++i) {
      uint16_t bits;
      __builtin_memcpy(&bits, p + 2 * i, sizeof bits);
      // As half_to_float() of dequant.h.
      const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
      float scaled;
      __builtin_memcpy(&scaled, &magnitude, sizeof scaled);
      scaled *= 0x1p112f;
      uint32_t whole;
      __builtin_memcpy(&whole, &scaled, sizeof whole);
      whole |= (magnitude >= 0x0f800000 ? 0x7f800000 : 0) | static_cast<uint32_t>(bits >> 15) << 31;
      __builtin_memcpy(&scaled, &whole, sizeof scaled);
      v[i] = scaled;
    }
    return v;
  }
  static F bf16(const std::byte* p) {
    uint16_t halves[kLanes];
    __builtin_memcpy(halves, p, sizeof halves);
    const I bits = {halves[0] << 16, halves[1] << 16, halves[2] << 16, halves[3] << 16};
    F v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
  }
  static F from_u8(const std::byte* p) {
    const auto at = [&](int i) { return static_cast<float>(static_cast<uint8_t>(p[i])); };
    return F{at(0), at(1), at(2), at(3)};
  }
  static F from_i8(const std::byte* p) {
    const auto at = [&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); };
    return F{at(0), at(1), at(2), at(3)};
  }
};

#endif

}  // namespace
}  // namespace prefix::ops
