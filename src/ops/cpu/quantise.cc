#include "ops/cpu/quantise.h"

#include "ops/rotation.h"

namespace prefix::ops {

size_t QuantisedRows::bytes(const PackedWeights& w, int64_t rows, int64_t size) {
  const int64_t all = rows * w.terms;
  return static_cast<size_t>(all * spread_row(w.k_padded * size)) +
         2 * whole_lines(static_cast<size_t>(all) * sizeof(float));
}

size_t QuantisedRows::row_bytes(int64_t k, int64_t size) {
  return static_cast<size_t>((k + 64) * size + 64) + 2 * sizeof(float);
}

QuantisedRows QuantisedRows::in(const PackedWeights& w, int64_t rows, int64_t size,
                                std::byte* memory) {
  QuantisedRows out;
  out.data = memory;
  out.ld = spread_row(w.k_padded * size) / size;
  const int64_t all = rows * w.terms;
  std::byte* const behind = memory + all * out.ld * size;
  out.scales = reinterpret_cast<float*>(behind);
  out.corrections =
      reinterpret_cast<int32_t*>(behind + whole_lines(static_cast<size_t>(all) * sizeof(float)));
  return out;
}

size_t block_rows_bytes(const PackedWeights& w, int64_t rows) {
  return whole_lines(static_cast<size_t>(rows * w.terms * block_rows_in(w, nullptr).ld));
}

size_t block_row_bytes(int64_t k) { return static_cast<size_t>(BlockRows::bytes_of(k)) + 2 * 64; }

BlockRows block_rows_in(const PackedWeights& w, std::byte* memory) {
  const auto bytes =
      static_cast<int64_t>(whole_lines(static_cast<size_t>(BlockRows::bytes_of(w.k))));
  return {memory, spread_row(bytes), w.k};
}

void quantise_block_row(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                        int64_t row, int worker, const BlockRows& out) {
  QuantiseGroupsArgs args;
  args.x = x.data + static_cast<size_t>(row * x.ld) * context.act_bytes();
  args.bf16 = context.act_is_bf16();
  args.row = w.terms * row;
  args.out = out;
  if (w.terms == 2)
    args.rest = reinterpret_cast<float*>(
        context.scratch[worker].reserve(static_cast<size_t>(w.k) * sizeof(float)));
  context.kernels->rows.quantise_groups(args);
  if (w.terms == 1) return;
  args.x = args.rest;
  args.bf16 = false;
  args.rest = nullptr;
  ++args.row;
  context.kernels->rows.quantise_groups(args);
}

void quantise_row(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                  int64_t row, int worker, const QuantisedRows& out) {
  QuantiseArgs args;
  args.x = x.data + static_cast<size_t>(row * x.ld) * context.act_bytes();
  args.bf16 = context.act_is_bf16();
  args.k = w.k;
  args.block = rotation_block(w.k);
  args.signs = w.signs;
  args.work = reinterpret_cast<float*>(
      context.scratch[worker].reserve(static_cast<size_t>(w.k) * sizeof(float)));
  const int64_t first = w.terms * row;
  const GemmKernels& gemm = context.kernels->gemm;
  const int64_t out_bytes = out.ld * gemm.int8_operand_bytes();
  auto* const first_out = reinterpret_cast<int8_t*>(out.data) + first * out_bytes;
  // What is widened is behind the place where it goes.
  args.out = gemm.widen_quads == nullptr ? first_out : first_out + w.k_padded;
  if (w.terms == 2) args.rest = args.out + out_bytes;
  args.k_padded = w.k_padded;
  args.next =
      static_cast<const std::byte*>(args.x) + static_cast<size_t>(x.ld) * context.act_bytes();
  const QuantisedRow made = context.kernels->rows.quantise(args);
  out.scales[first] = made.scale / static_cast<float>(args.block);
  out.corrections[first] = 128 * made.sum;
  if (context.observer != nullptr) context.observer->row(w, args.out, made.scale);
  if (gemm.widen_quads != nullptr) {
    for (int64_t term = 0; term < w.terms; ++term)
      gemm.widen_quads(args.out + term * out_bytes, w.k_padded,
                       reinterpret_cast<int16_t*>(first_out + term * out_bytes));
  }
  if (w.terms == 1) return;
  out.scales[first + 1] = out.scales[first] / kRestUnits;
  out.corrections[first + 1] = 128 * made.rest_sum;
}

}  // namespace prefix::ops
