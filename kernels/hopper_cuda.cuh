// The interface of body/hopper.h on a GPU of compute capability 9.0: inline PTX of sm_90a.
#pragma once

#include "block_cuda.cuh"
#include "body/hopper.h"

namespace prefix::ops::gpu {

PREFIX_BODY uint32_t shared_address(int offset) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory + offset));
}

// Barriers lie behind everything else in shared memory. Where is kept: the compiler would ask again
// and again where in its cluster the block is.
template <int kBarriers>
class BarrierAddress {
 public:
  PREFIX_BODY BarrierAddress() : begin_(shared_address(kBarriers)) {
    asm volatile("" : "+r"(begin_));
  }
  PREFIX_BODY uint32_t operator()(int barrier) const {
    return begin_ + 8 * static_cast<uint32_t>(barrier);
  }

 private:
  uint32_t begin_;
};
PREFIX_BODY void wait_barrier(uint32_t address, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(address),
      "r"(parity)
      : "memory");
}

// One thread of the warp, and the compiler knows that it is one: else every bulk copy is a loop over
// those that might be there.
PREFIX_BODY bool elected() {
  uint32_t mine;
  asm volatile(
      "{\n"
      ".reg .pred mine;\n"
      "elect.sync _|mine, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, mine;\n"
      "}"
      : "=r"(mine));
  return mine != 0;
}

template <int kBarriers>
class CudaProducer {
 public:
  PREFIX_BODY void wait(int barrier, int parity) { wait_barrier(address_(barrier), parity); }
  PREFIX_BODY void expect(int barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_(barrier)),
                 "r"(bytes)
                 : "memory");
  }
  PREFIX_BODY void copy(int to, const void* from, int bytes, int barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(address_(barrier))
        : "memory");
  }
  template <class T>
  PREFIX_BODY void set(int offset, const T& value) {
    *reinterpret_cast<T*>(shared_memory + offset) = value;
  }

 private:
  BarrierAddress<kBarriers> address_;
};

// What those have who wait for the producer.
template <int kBarriers>
class CudaConsumer {
 public:
  template <class T>
  PREFIX_BODY T read(int offset) const {
    return *reinterpret_cast<const T*>(shared_memory + offset);
  }
  PREFIX_BODY void wait(int barrier, int parity) { wait_barrier(address_(barrier), parity); }
  PREFIX_BODY void arrive(int barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_(barrier)) : "memory");
  }

 private:
  BarrierAddress<kBarriers> address_;
};

// A block that has barriers.
template <int kBarriers>
class CudaBarriers : InTurn {
 public:
  PREFIX_BODY int x() const { return static_cast<int>(blockIdx.x); }
  PREFIX_BODY int y() const { return static_cast<int>(blockIdx.y); }
  PREFIX_BODY void begin_barrier(int barrier, int count) {
    if (threadIdx.x == 0)
      asm volatile(
          "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(kBarriers + 8 * barrier)),
          "r"(count)
          : "memory");
  }

 protected:
  // All barriers have begun: the copy engine must see them too.
  PREFIX_BODY void open_barriers() {
    if (threadIdx.x == 0) {
      if (shared_address(0) % 1024 != 0) __trap();  // atoms of the swizzle
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
};

// Sums that the compiler must not move across a wait.
template <int N>
PREFIX_BODY void pin(float (&x)[N]) {
  unrolled<N>([&](int i) { asm volatile("" : "+f"(x[i])::"memory"); });
}

#define PREFIX_SUMS_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define PREFIX_SUMS_32                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define PREFIX_SUMS_64                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define PREFIX_8(x, i)                                                                        \
  "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]), \
      "+f"(x[i + 6]), "+f"(x[i + 7])
#define PREFIX_16(x, i) PREFIX_8(x, i), PREFIX_8(x, i + 8)
#define PREFIX_32(x, i) PREFIX_8(x, i), PREFIX_8(x, i + 8), PREFIX_8(x, i + 16), PREFIX_8(x, i + 24)

// d (+)= a b^T, both from shared memory: [64][128].
PREFIX_BODY void wgmma_shared(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " PREFIX_SUMS_64
      ", %64, %65, add, 1, 1, 0, 0;\n}"
      : PREFIX_32(d, 0), PREFIX_32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
// d (+)= a b^T, a from registers: [64][32].
PREFIX_BODY void wgmma_registers_32(float (&d)[16], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " PREFIX_SUMS_16
      ", {%16, %17, %18, %19}, %20, add, 1, 1, 0;\n}"
      : PREFIX_16(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}
// d += a b, a from registers.
PREFIX_BODY void wgmma_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " PREFIX_SUMS_64
      ", {%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"
      : PREFIX_32(d, 0), PREFIX_32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}
PREFIX_BODY void wgmma_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PREFIX_SUMS_32
      ", {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"
      : PREFIX_32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

#undef PREFIX_SUMS_16
#undef PREFIX_SUMS_32
#undef PREFIX_SUMS_64
#undef PREFIX_8
#undef PREFIX_16
#undef PREFIX_32

template <int kBarriers>
class CudaGroup : public CudaConsumer<kBarriers>, public CudaThreads {
 public:
  // By a reduction, whose result the compiler keeps where it keeps addresses of products.
  PREFIX_BODY static int uniform(int x) {
    return static_cast<int>(__reduce_or_sync(~0u, static_cast<unsigned>(x)));
  }
  // The first group of the block is the producer's.
  PREFIX_BODY int index() const { return index_; }
  template <class F>
  PREFIX_BODY void each(const F& f) {
    f(static_cast<int>(threadIdx.x) % 128);
  }
  PREFIX_BODY void sync() { asm volatile("bar.sync %0, 128;" ::"r"(1 + index()) : "memory"); }
  // A barrier for the turn of each group: the other one arrives, it waits. The first turn is given
  // by the second group.
  PREFIX_BODY void begin_turns(int groups) {
    groups_ = groups;
    if (index() == 1) pass_turn(false);
  }
  PREFIX_BODY void take_turn() {
    if (groups_ > 1) asm volatile("bar.sync %0, 256;" ::"r"(3 + index()) : "memory");
  }
  PREFIX_BODY void pass_turn(bool last) {
    if (groups_ > 1 && !(last && index() == 1))
      asm volatile("bar.arrive %0, 256;" ::"r"(3 + (index() ^ 1)) : "memory");
  }
  PREFIX_BODY void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

  PREFIX_BODY void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  template <class Sums>
  PREFIX_BODY void multiply_shared(PerThread<Sums>& d, const Matrix64& a, const Matrix64& b,
                                   bool add) {
    const uint32_t base = shared_address(0);
    wgmma_shared(d.own().x, descriptor(a, base), descriptor(b, base), add);
  }
  template <class Sums, class Weights>
  PREFIX_BODY void multiply_weights(PerThread<Sums>& d, PerThread<Weights>& a, int step,
                                    const Matrix64& b) {
    wgmma_registers(d.own().x, a.own().x[step].x, descriptor(b, shared_address(0)));
  }
  PREFIX_BODY void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  // `done` are the sums that are waited for.
  template <int N, class Sums>
  PREFIX_BODY void wait_products(PerThread<Sums>& done) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
    pin(done.own().x);
  }

  template <class T>
  PREFIX_BODY void settle(PerThread<T>& x) {
    uint32_t(&words)[sizeof(T) / 4] = reinterpret_cast<uint32_t(&)[sizeof(T) / 4]>(x.own());
    PREFIX_UNROLL
    for (uint32_t& word : words) asm volatile("" : "+r"(word));
  }

 private:
  const int index_ = uniform(static_cast<int>(threadIdx.x) / 128 - 1);
  int groups_ = 1;
};

// 128 threads for the producer, of which one works, and two groups.
template <int kBarriers>
class CudaHopper : public CudaBarriers<kBarriers> {
 public:
  template <class P, class C>
  PREFIX_BODY void start(const P& producer, const C& consumer) {
    this->open_barriers();
    if (threadIdx.x < 128) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (threadIdx.x < 32 && elected()) {
        CudaProducer<kBarriers> p;
        producer(p);
      }
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      CudaGroup<kBarriers> group;
      consumer(group);
    }
  }
};

}  // namespace prefix::ops::gpu
