// What bodies for Hopper are written in, beside body/portable.h: warpgroups that multiply from
// shared memory, a copy engine, and barriers between them.
//
//   block.start(producer, consumer)  calls consumer(group) in each group of 128 threads and
//                                    producer(p) in one thread beside them, all at the same time
//   p.wait(barrier, parity)          until the phase of that parity is over; the phase before the
//                                    first counts as over
//   p.expect(barrier, bytes)         arrives; the phase ends when that many bytes have landed
//   p.copy(to, from, bytes, barrier) into shared memory
//   group.arrive(barrier)            of each warp, once
//   group.sync()                     among the threads of the group
//   group.take_turn(), pass_turn(last)  around what the groups do in turn, the first one first, each as
//                                    often; group.begin_turns(groups) once before; `last`: no turn follows
//   group.fence_async()              what this thread has stored is there for products
//   group.fence()                    registers are ready for products
//   group.multiply_shared(), multiply_weights(), commit(), wait_products<N>()
//   group.uniform(x)                 x, which is the same in all threads, and known to be
//   group.settle(x)                  what of x is to be computed, is: not behind the next barrier
//   warp.multiply_together<tiles, steps, transposed>(add, d, a, b)
//                                    a warp's part of products of four warps, until they are done:
//                                    d(tile, lane) (+)= sum over k of a(k, lane) times b(k), a matrix
//                                    that is the same for all of them, 8 * tiles columns wide
//
// Products run on their own until wait_products<N>() has left at most N commits: the sums and the
// weights must not be touched, and the shared memory must stay as it is.
//
// kernels/hopper_cuda.cuh has it on a GPU, tests/kernels/hopper_emulated.h on the CPU, which
// finds waits that are missing.
#pragma once

#include "body/portable.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// A matrix in shared memory, as products are given it: rows of 128 bytes with the 128-byte
// swizzle, eight of them an atom of 1 KB. The unit of both distances is a byte.
//
//   K-major   (A; B without transposing)  a row of bytes is 64 elements of K; `stride` from eight
//             rows of M or N to the next eight, `lead` means nothing (16)
//   MN-major  (B transposed)  a row of bytes is 64 elements of N, the rows are K; `stride` from eight
//             rows of K to the next eight, `lead` from 64 elements of N to the next
//
// `at` is the offset of the first element, inside its atom too, in pieces of 16 bytes as the descriptor
// has it: then what is known to the compiler is one addition. The swizzle applies to the address that
// comes out.
struct Matrix64 {
  uint32_t at;
  uint32_t lead, stride;
};
PREFIX_BODY constexpr Matrix64 matrix(int at, int lead, int stride) {
  return {static_cast<uint32_t>(at), static_cast<uint32_t>(lead), static_cast<uint32_t>(stride)};
}
// The descriptor; `base` is the address of the shared memory. In a cluster it says which block, too, above
// the 18 bits that count.
PREFIX_BODY constexpr uint64_t descriptor(const Matrix64& m, uint32_t base) {
  const uint32_t low = ((base & 0x3ffff) >> 4) + m.at + (m.lead >> 4 << 16);
  const uint32_t high = m.stride >> 4 | uint32_t{1} << 30;
  return static_cast<uint64_t>(high) << 32 | low;
}

}  // namespace prefix::ops::gpu
