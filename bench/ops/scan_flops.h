// FLOP of the chunked form of a scan, which is what others compute: the limit that a scan token by
// token is held against. Chunk Q = 64, of a token and head; what is masked in a chunk is not counted
// (half of it is):
//   Mamba-2, S [P, N] (Dao and Gu 2024, section 6):
//     C S and B (outer) x              4 P N
//     (C B^T) x in the chunk           Q P           C B^T itself is shared by all heads of a group
//   gated delta rule, S [K, V] (Yang et al. 2024, WY form):
//     Q S, W S, K (outer) V'           6 K V
//     K K^T, Q K^T                     2 Q K
//     T = (I + A)^-1                   Q^2 / 3
//     T V, T K, (Q K^T) V'             Q V + Q K + Q V
#pragma once

namespace prefix::bench {

// p: values of a head, V; n: numbers of the state, K.
inline double chunked_flop(bool gated_delta, double p, double n) {
  constexpr double q = 64;
  return gated_delta ? 6 * p * n + 3 * q * n + 2 * q * p + q * q / 3 : 4 * p * n + q * p;
}

}  // namespace prefix::bench
