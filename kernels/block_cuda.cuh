// Block and Warp of body/portable.h on a GPU: every function is a few instructions.
//
// From compute capability 9.0 on kernels overlap (launch_shape.h): blocks of the next kernel are
// there, and wait, while the last blocks of this one run. A body gets its arguments together with a
// block, and making a block waits (InTurn): so nothing of the kernels before is read or overwritten
// too early, whatever a body does first.
#pragma once

#include "body/portable.h"

namespace prefix::ops::gpu {

#ifndef PREFIX_SHARED_ALIGN
#define PREFIX_SHARED_ALIGN 128
#endif
extern __shared__ __align__(PREFIX_SHARED_ALIGN) unsigned char shared_memory[];

// Part of every block. All threads of all blocks wait: a kernel that has ended then says the same
// of all kernels before it.
struct InTurn {
  PREFIX_BODY InTurn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  }
};

// Shared memory, by byte offset. The emulator has to know which thread it is that asks.
class CudaShared {
 public:
  template <class T>
  PREFIX_BODY T get(int, int offset) const {
    return *reinterpret_cast<const T*>(shared_memory + offset);
  }
  template <class T>
  PREFIX_BODY void set(int, int offset, const T& value) {
    *reinterpret_cast<T*>(shared_memory + offset) = value;
  }
};

class CudaWarp : public CudaShared {
 public:
  template <class T>
  class Local {
   public:
    PREFIX_BODY T& operator[](int) { return value_; }
    PREFIX_BODY const T& operator[](int) const { return value_; }

   private:
    T value_;
  };

  PREFIX_BODY int index() const { return static_cast<int>(threadIdx.x) / 32; }
  template <class F>
  PREFIX_BODY void each(const F& f) {
    f(static_cast<int>(threadIdx.x) % 32);
  }

  PREFIX_BODY float sum(const Local<float>& x) {
    float v = x[0];
    PREFIX_UNROLL
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    return v;
  }
  PREFIX_BODY float max(const Local<float>& x) {
    float v = x[0];
    PREFIX_UNROLL
    for (int i = 16; i > 0; i /= 2) v = larger(__shfl_xor_sync(~0u, v, i), v);
    return v;
  }
  PREFIX_BODY void min(Local<int>& x) { x[0] = __reduce_min_sync(~0u, x[0]); }
  PREFIX_BODY void max(Local<int>& x) { x[0] = __reduce_max_sync(~0u, x[0]); }
  template <class T>
  PREFIX_BODY T broadcast(const Local<T>& x, int lane) {
    return __shfl_sync(~0u, x[0], lane);
  }
  PREFIX_BODY bool any(const Local<int>& x) { return __any_sync(~0u, x[0]); }
  // x[lane] becomes what x[lane ^ mask] was; T is made of words.
  template <class T>
  PREFIX_BODY void exchange(Local<T>& x, int mask) {
    uint32_t words[sizeof(T) / 4];
    memcpy(words, &x[0], sizeof words);
    PREFIX_UNROLL
    for (uint32_t& word : words) word = __shfl_xor_sync(~0u, word, mask);
    memcpy(&x[0], words, sizeof words);
  }
  // Over the four lanes that share a row of C.
  PREFIX_BODY void quad_max(Local<float>& x) {
    x[0] = larger(__shfl_xor_sync(~0u, x[0], 1), x[0]);
    x[0] = larger(__shfl_xor_sync(~0u, x[0], 2), x[0]);
  }
  PREFIX_BODY void quad_sum(Local<float>& x) {
    x[0] += __shfl_xor_sync(~0u, x[0], 1);
    x[0] += __shfl_xor_sync(~0u, x[0], 2);
  }

  // Four 8x8 matrices of 16-bit elements: lane i gives the offset of row i % 8 of matrix i / 8.
  template <bool transposed>
  PREFIX_BODY void load_matrices(const Local<int>& at, Local<FragmentA>& out) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory + at[0]));
    uint32_t(&x)[4] = out[0].x;
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(address)
                   : "memory");
    }
  }
  PREFIX_BODY void mma(Local<FragmentC>& c, const Local<FragmentA>& a, const Local<FragmentB>& b) {
    float(&d)[4] = c[0].x;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0].x[0]), "r"(a[0].x[1]), "r"(a[0].x[2]), "r"(a[0].x[3]), "r"(b[0].x[0]),
          "r"(b[0].x[1]));
  }
};

// What the threads of several warps have.
class CudaThreads : public CudaShared {
 public:
  using Warp = CudaWarp;
  template <class T>
  class PerThread {
   public:
    PREFIX_BODY explicit PerThread(CudaThreads&) {}
    PREFIX_BODY T& operator[](int) { return local_[0]; }
    PREFIX_BODY Warp::Local<T>& of(const Warp&) { return local_; }
    PREFIX_BODY T& own() { return local_[0]; }

   private:
    Warp::Local<T> local_;
  };
  template <class F>
  PREFIX_BODY void each_warp(const F& f) {
    Warp warp;
    f(warp);
  }
};

class CudaBlock : InTurn, public CudaThreads {
 public:
  PREFIX_BODY int x() const { return static_cast<int>(blockIdx.x); }
  PREFIX_BODY int y() const { return static_cast<int>(blockIdx.y); }
  template <class F>
  PREFIX_BODY void each(const F& f) {
    f(static_cast<int>(threadIdx.x));
  }
  PREFIX_BODY void sync() { __syncthreads(); }

  PREFIX_BODY void copy16(int, int offset, const void* from) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory + offset));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  }
  PREFIX_BODY void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // All groups of this thread but the last N have landed.
  template <int N>
  PREFIX_BODY void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
  }

  // Of all threads, in an order that depends on their number only.
  PREFIX_BODY float sum(PerThread<float>& x) {
    __shared__ float sums[32];
    Warp warp;
    const float mine = warp.sum(x.of(warp));
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) total += sums[i];
    return total;
  }

  // Counts blocks; true for the one that makes it `count`, which then sees what the others wrote.
  // The counter is 0 again afterwards.
  PREFIX_BODY bool arrives_last(int32_t* counter, int32_t count) {
    __shared__ int32_t before;
    // The barriers order the block around its first thread, whose fences then speak for all.
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      before = atomicAdd(counter, 1);
      if (before == count - 1) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    return before == count - 1;
  }
  // Past the first-level cache, which does not see what other processors write.
  template <int N>
  PREFIX_BODY void load_fresh(const float* from, float (&out)[N]) const {  // aligned to N, or to 4
    static_assert(N == 2 || N % 4 == 0);
    using Piece = std::conditional_t<N == 2, float2, float4>;
    PREFIX_UNROLL
    for (int i = 0; i < N; i += sizeof(Piece) / sizeof(float)) {
      const Piece v = __ldcg(reinterpret_cast<const Piece*>(from + i));
      memcpy(out + i, &v, sizeof v);
    }
  }
};

}  // namespace prefix::ops::gpu
