// The avx512_bf16 level: vdpbf16ps, which adds two bf16 products to an f32 per lane.
//
// It starts from the avx512 table, whose f32 kernels serve the f32 mode.
#include "ops/cpu/attention_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows_impl.h"

namespace prefix::ops {
namespace {

struct Bf16ByBf16 {
  using A = uint16_t;
  using B = uint16_t;
  using Vec = __m512;
  using BVec = __m512bh;
  static constexpr int kLanes = 16;
  static constexpr int kStep = 2;
  static constexpr int kPhases = 1;
  static constexpr int kAccumulators = 24;
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec load_c(const float* p) { return _mm512_loadu_ps(p); }
  static void store_c(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static BVec load_b(const uint16_t* p, int) {
    const __m512i bits = _mm512_loadu_si512(p);
    return (__m512bh)bits;
  }
  static BVec broadcast_a(const uint16_t* p, int) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  static Vec mac(Vec c, BVec a, BVec b) { return _mm512_dpbf16_ps(c, a, b); }
};

}  // namespace

void fill_kernels_avx512_bf16(KernelTable& table) {
  // Its Simd converts to bf16 in one instruction.
  table.rows = row_kernels();
  table.attention = attention_kernels();
  table.gemm.tile_bf16 = multiply_tile<Bf16ByBf16>;
  table.gemm.act_is_bf16 = true;
  table.gemm.tile_wide = nullptr;  // nothing is widened
  table.gemm.row_block = 192;      // of half the bytes that the f32 levels have in a row
  table.gemm.gated_bf16 = gated_rows<Simd, true>;  // this level has the conversion instruction
  table.gemm.peak_bf16 = register_peak<Bf16ByBf16>;
}

}  // namespace prefix::ops
