// What body/attention_decode.h is written in, on a GPU of compute capability 9.0: warps that take
// pages from a producer, and read the shared memory of the other blocks of their cluster.
#pragma once

#include "hopper_cuda.cuh"

namespace prefix::ops::gpu {

template <int kBarriers>
class CudaClusterWarp : public CudaWarp, public CudaConsumer<kBarriers> {
 public:
  PREFIX_BODY int rank() const {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
  }
  // The warps of the block.
  PREFIX_BODY void sync() { asm volatile("bar.sync 1, %0;" ::"n"(32 * kDecodeWarps) : "memory"); }
  // The warps of the cluster; producers have ended, or will without arriving. What is handed over lies in
  // shared memory: releasing no more than that does not wait for global memory (0.5 us).
  PREFIX_BODY void sync_cluster() {
    asm volatile(
        "fence.release.sync_restrict::shared::cta.cluster;\n"
        "barrier.cluster.arrive.relaxed.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
  }
  // The same where nothing is handed over: what was read from other blocks has been used. So it
  // does not wait for results on their way to global memory.
  PREFIX_BODY void leave_cluster() {
    asm volatile(
        "barrier.cluster.arrive.relaxed.aligned;\n"
        "barrier.cluster.wait.aligned;" ::
            : "memory");
  }
  template <int kTiles, int kSteps, bool transposed, class D, class A, class B>
  PREFIX_BODY void multiply_together(bool add, const D& d, const A& a, const B& b) {
    float sums[4 * kTiles];
    unrolled<4 * kTiles>([&](int i) { sums[i] = d(i / 4, 0).x[i % 4]; });
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    unrolled<kSteps>([&](int k) {
      const uint64_t matrix = descriptor(b(k), shared_address(0));
      if constexpr (transposed)
        wgmma_registers(sums, a(k, 0).x, matrix);
      else
        wgmma_registers_32(sums, a(k, 0).x, matrix, add || k > 0);
    });
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    pin(sums);
    unrolled<4 * kTiles>([&](int i) { d(i / 4, 0).x[i % 4] = sums[i]; });
  }
  // From the shared memory of another block.
  template <class T>
  PREFIX_BODY T get_from(int rank, int, int offset) const {
    static_assert(sizeof(T) == 8 || sizeof(T) == 16);
    uint32_t from;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(from)
        : "r"(shared_address(offset)), "r"(rank));
    T out;
    if constexpr (sizeof(T) == 16) {
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(out.x[0]), "=f"(out.x[1]), "=f"(out.x[2]), "=f"(out.x[3])
                   : "r"(from)
                   : "memory");
    } else {
      asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                   : "=f"(out.x[0]), "=f"(out.x[1])
                   : "r"(from)
                   : "memory");
    }
    return out;
  }
};

// Eight warps, and one of which a thread is the producer.
template <int kBarriers>
class CudaClusterBlock : public CudaBarriers<kBarriers> {
 public:
  template <class P, class C>
  PREFIX_BODY void start(const P& producer, const C& consumer) {
    this->open_barriers();
    if (threadIdx.x < 32 * kDecodeWarps) {
      CudaClusterWarp<kBarriers> warp;
      consumer(warp);
    } else if (elected()) {
      CudaProducer<kBarriers> p;
      producer(p);
    }
  }
};

}  // namespace prefix::ops::gpu
