// The kernels of kernels_avx_vnni.cc with vpdpbusd computed by other instructions,
// so that every machine with AVX2 runs them.
#include <immintrin.h>

namespace {

// Four products of an unsigned and a signed byte in every lane, added to it.
inline __m256i dot_quads(__m256i sum, __m256i bytes, __m256i numbers) {
  for (int at = 0; at < 32; at += 8) {
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(bytes, at), _mm256_set1_epi32(0xff));
    const __m256i number = _mm256_srai_epi32(_mm256_slli_epi32(numbers, 24 - at), 24);
    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(byte, number));
  }
  return sum;
}

}  // namespace

#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 dot_quads
#define __AVXVNNI__ 1
#include "ops/avx_vnni_model.h"
#include "ops/cpu/int8_impl.h"

namespace prefix::ops::testing {

void fill_kernels_avx_vnni_model(KernelTable& table) { add_vnni_kernels(table.gemm); }

}  // namespace prefix::ops::testing
