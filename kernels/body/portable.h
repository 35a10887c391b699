// What the bodies of the kernels are written in.
//
// A body is one block of threads as a template over its Block, so that the same lines run on a GPU
// (kernels/block_cuda.cuh) and in the emulator of the tests (tests/kernels/block_emulated.h):
//
//   block.each([&](int thread) {...})     what each thread does until the next collective call
//   block.each_warp([&](auto& warp) {...})   the same by warps; warp.each([&](int lane) {...})
//   block.sync()                           __syncthreads
//   Block::PerThread<T>, Warp::Local<T>    a variable of every thread, x[thread] / x[lane]
//   block.get<T>, set<T>, copy16           shared memory, by byte offset (get, set: also of a
//                                          warp); copy16 is asynchronous
//   warp.mma, load_matrices, quad_max ...  collective operations of a warp
//
// On the GPU each() calls its function once and PerThread is a plain variable: all of it inlines
// away. The emulator runs the threads one after the other between two collectives, in any order,
// and watches shared memory for conflicts. Control flow outside of each() must be the same for all
// threads of the block (of the warp inside each_warp).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define PREFIX_BODY __device__ __forceinline__
#define PREFIX_UNROLL _Pragma("unroll")
#define PREFIX_PRAGMA(text) _Pragma(#text)
#define PREFIX_UNROLL_BY(n) PREFIX_PRAGMA(unroll(n))
#else
#define PREFIX_BODY inline
#define PREFIX_UNROLL
#define PREFIX_UNROLL_BY(n)
#include <stdexcept>
#include <string>
#endif

namespace prefix::ops::gpu {

// f(0), f(1) ... f(N - 1), one behind the other: what they index stays in registers.
template <int N, class F>
PREFIX_BODY void unrolled(const F& f) {
  PREFIX_UNROLL
  for (int i = 0; i < N; ++i) f(i);
}

template <class T, int N>
struct alignas(N * sizeof(T)) Pack {  // one access where it is aligned
  T x[N];
};
using Bits128 = Pack<uint32_t, 4>;
using Bits64 = Pack<uint32_t, 2>;
using Floats2 = Pack<float, 2>;
using Floats4 = Pack<float, 4>;
// The operands of mma.m16n8k16: per lane 4 registers of A, 2 of B, 4 sums. Lane = 4 * g + t:
//   A  x[0]: row g, columns 2t 2t+1    x[1]: row g+8    x[2]: row g, columns +8    x[3]: both
//   B  x[0]: rows 2t 2t+1, column g    x[1]: rows +8
//   C  x[0], x[1]: row g, columns 2t 2t+1               x[2], x[3]: row g+8
struct FragmentA {
  uint32_t x[4];
};
struct FragmentB {
  uint32_t x[2];
};
struct FragmentC {
  float x[4];
};

PREFIX_BODY uint32_t float_bits(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);  // nvcc 13.0 makes more of key_of() by std::bit_cast
#else
  return std::bit_cast<uint32_t>(x);
#endif
}
PREFIX_BODY float bits_float(uint32_t x) { return std::bit_cast<float>(x); }
PREFIX_BODY float minus_infinity() { return bits_float(0xff800000u); }

// To nearest even; NaN stays NaN.
PREFIX_BODY uint16_t to_bf16(float x) {
  const uint32_t bits = float_bits(x);
  if (x != x) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
PREFIX_BODY float from_bf16(uint16_t x) { return bits_float(static_cast<uint32_t>(x) << 16); }
PREFIX_BODY uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
#else
  return static_cast<uint32_t>(to_bf16(high)) << 16 | to_bf16(low);
#endif
}
PREFIX_BODY float exp2_of(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return std::exp2(x);
#endif
}
PREFIX_BODY float larger(float a, float b) {  // b, which is a number, when a is NaN
#ifdef __CUDA_ARCH__
  return fmaxf(a, b);
#else
  return a > b ? a : b;
#endif
}
PREFIX_BODY int smaller(int a, int b) { return a < b ? a : b; }
PREFIX_BODY int larger(int a, int b) { return a > b ? a : b; }
PREFIX_BODY float inverse_root(float x) { return 1.0f / sqrtf(x); }
PREFIX_BODY float silu(float x) { return x / (1.0f + expf(-x)); }
// x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
PREFIX_BODY float gelu_tanh(float x) {
  return x / (1.0f + expf(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

PREFIX_BODY bool is_aligned(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}
// A GPU loses its context at an access that is not aligned; the emulator's launch fails.
PREFIX_BODY void expect_aligned([[maybe_unused]] const void* p, [[maybe_unused]] int64_t bytes) {
#ifndef __CUDACC__
  if (!is_aligned(p, bytes))
    throw std::logic_error("global memory: " + std::to_string(bytes) + " bytes, not aligned");
#endif
}

// Global memory in one access, which wants it aligned to the size of T.
template <class T>
PREFIX_BODY T load_whole(const void* from) {
  static_assert(alignof(T) == sizeof(T));
  expect_aligned(from, sizeof(T));
#ifdef __CUDA_ARCH__
  return *static_cast<const T*>(from);
#else
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
#endif
}
template <class T>
PREFIX_BODY void store_whole(void* to, const T& v) {
  static_assert(alignof(T) == sizeof(T));
  expect_aligned(to, sizeof(T));
#ifdef __CUDA_ARCH__
  *static_cast<T*>(to) = v;
#else
  std::memcpy(to, &v, sizeof v);
#endif
}
PREFIX_BODY Bits128 load16(const void* from) { return load_whole<Bits128>(from); }
PREFIX_BODY void store16(void* to, Bits128 v) { store_whole(to, v); }

}  // namespace prefix::ops::gpu
