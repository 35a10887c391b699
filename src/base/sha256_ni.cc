// SHA-256 with the SHA extensions of x86-64: two rounds per instruction.
//
// The instructions want the state as two registers of four words,
//
//   abef = [ a b e f ]    cdgh = [ c d g h ]      (highest word first)
//
// and the message as four registers m[0..3] of four words each, a window of 16 words that moves on
// by four words per step.
#include "base/sha256_compress.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#else
#include <cstdlib>
#endif

namespace prefix::sha256_detail {

#if defined(__x86_64__)

bool sha_ni_runs() {
  static const bool runs = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(1, 0, &a, &b, &c, &d) == 0) return false;
    const bool ssse3 = (c >> 9 & 1) != 0;
    const bool sse41 = (c >> 19 & 1) != 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    return ssse3 && sse41 && (b >> 29 & 1) != 0;
  }();
  return runs;
}

__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha_ni(uint32_t* state,
                                                                 const std::byte* blocks,
                                                                 size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i abcd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i efgh = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);

  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i m[4];
    for (int i = 0; i < 4; ++i)
      m[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * i)),
                              big_endian);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds + 4 * i));
      const __m128i sum = _mm_add_epi32(m[i % 4], k);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (i < 12) {  // words 16 + 4i to 19 + 4i take the place of words 4i to 4i + 3
        const __m128i seven_back = _mm_alignr_epi8(m[(i + 3) % 4], m[(i + 2) % 4], 4);
        const __m128i part =
            _mm_add_epi32(_mm_sha256msg1_epu32(m[i % 4], m[(i + 1) % 4]), seven_back);
        m[i % 4] = _mm_sha256msg2_epu32(part, m[(i + 3) % 4]);
      }
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool sha_ni_runs() { return false; }
void compress_sha_ni(uint32_t*, const std::byte*, size_t) { std::abort(); }  // never asked for

#endif

}  // namespace prefix::sha256_detail
