// What the multiply-adds of a policy of gemm_impl.h reach where nothing is loaded or stored:
// what products are measured by.
#pragma once

#include <cstdint>

#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

#if defined(__x86_64__)
// As far as the compiler knows it is another one now.
template <class Vec>
inline void hide_from_compiler(Vec& v) {
  asm volatile("" : "+x"(v));
}
#elif defined(__aarch64__)
template <class Vec>
inline void hide_from_compiler(Vec& v) {
  asm volatile("" : "+w"(v));
}
#else
template <class Vec>
inline void hide_from_compiler(Vec&) {}
#endif

// As many as the registers hold.
template <class M>
constexpr int peak_chains() {
  if constexpr (requires { M::kChains; }) return M::kChains;
  return 12;
}

// Independent multiply-adds on registers; the result is returned so that nothing is optimised away.
template <class M>
double register_peak(int64_t iterations) {
  constexpr int kChains = peak_chains<M>();
  alignas(64) typename M::B b_data[M::kLanes * M::kStep];
  alignas(64) typename M::A a_data[M::kStep * kChains];
  alignas(64) float out[M::kLanes];
  __builtin_memset(b_data, 0x3c, sizeof b_data);
  __builtin_memset(a_data, 0x3c, sizeof a_data);
  asm volatile("" : : "r"(b_data), "r"(a_data) : "memory");
  auto b = M::load_b(b_data, 0);
  const auto a = M::broadcast_a(a_data, 0);
  typename M::Vec acc[kChains];
  PREFIX_UNROLL
  for (int i = 0; i < kChains; ++i) acc[i] = M::zero();
  for (int64_t n = 0; n < iterations; ++n) {
    PREFIX_UNROLL
    for (int i = 0; i < kChains; ++i) {
      // Or a part of each multiply-add is computed once for all, and of all chains,
      // whose numbers are equal, one.
      hide_from_compiler(b);
      acc[i] = M::mac(acc[i], a, b);
      hide_from_compiler(acc[i]);
    }
  }
  PREFIX_UNROLL
  for (int i = 0; i < kChains; ++i) {
    M::store_c(out, acc[i]);
    asm volatile("" : : "r"(out) : "memory");
  }
  const double macs_per_lane = static_cast<double>(M::kStep) / M::kPhases;
  return static_cast<double>(iterations) * kChains * M::kLanes * macs_per_lane * 2.0;
}

}  // namespace
}  // namespace prefix::ops
