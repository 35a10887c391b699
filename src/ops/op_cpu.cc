#include "ops/op_cpu.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/resources.h"
#include "base/status.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/memory.h"
#include "ops/cpu/pack.h"
#include "ops/host_logits.h"

namespace prefix::ops {
CpuDevice::CpuDevice(const CpuOptions& options)
    : isa_(choose_isa(options.isa)),
      threads_(options.threads > 0 ? options.threads : resources().processors),
      sizes_(compute_type_of(options.types, kernel_table(isa_))) {
  scratch_ = std::make_unique<Scratch[]>(static_cast<size_t>(threads_.count()));
  context_.threads = &threads_;
  context_.scratch = scratch_.get();
  context_.partials = &partials_;
  context_.kernels = &kernel_table(isa_);
  context_.types = options.types;
}

int64_t CpuSizes::act_ld(int64_t columns) const {
  const auto size = static_cast<int64_t>(act_bytes());
  int64_t bytes = (columns + 31) / 32 * 32 * size;
  // Rows at a large power of two apart would share few L1 sets; one cache line more spreads them.
  if (bytes % 512 == 0) bytes += 64;
  return bytes / size;
}

int64_t CpuSizes::f32_ld(int64_t columns) const { return (columns + 31) / 32 * 32 + 16; }

int64_t CpuSizes::usable_bytes() const { return resources().available_bytes; }

std::byte* CpuDevice::allocate(size_t bytes) { return map_memory(bytes); }

int64_t CpuDevice::free_bytes() const { return resources().available_bytes; }

void CpuDevice::release(std::byte* data, size_t bytes) { unmap_memory(data, bytes); }

PackedWeights CpuDevice::pack_from(PackedWeights shape,
                                   std::span<const WeightSource* const> sources, int64_t n) {
  std::byte* const data = allocate(shape.bytes());
  try {
    pack_panels(threads_, shape, sources, n, data);
  } catch (...) {
    release(data, shape.bytes());
    throw;
  }
  shape.data = data;
  return shape;
}

PackedWeights CpuDevice::pack(int64_t n, int64_t k, const WeightSource& rows) {
  const std::array<const WeightSource*, 1> sources = {&rows};
  return pack_from(PackedWeights::of_shape(context_.types.weights, n, k), sources, n);
}

PackedWeights CpuDevice::pack_gated(int64_t n, int64_t k, const WeightSource& gate,
                                    const WeightSource& up) {
  const std::array<const WeightSource*, 2> sources = {&gate, &up};
  return pack_from(PackedWeights::of_gated_shape(context_.types.weights, n, k), sources, n);
}

void CpuDevice::embed(const PackedWeights& w, std::span<const int32_t> ids, float scale, float* out,
                      int64_t ld) {
  threads_.run(static_cast<int64_t>(ids.size()), [&](int64_t i, int) {
    const int32_t id = ids[static_cast<size_t>(i)];
    PREFIX_CHECK(id >= 0 && id < w.n);
    unpack_row(w, id, scale, out + i * ld);
  });
}

void CpuDevice::linear(const PackedWeights& w, const float* bias, Act x, int64_t rows, float* y,
                       int64_t ld, bool add) {
  GemmOutput output;
  output.y = y;
  output.ldy = ld;
  output.add = add;
  output.bias = bias;
  output.columns = w.n;
  gemm(context_, w, x, rows, output);
}

void CpuDevice::linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                             const float* bias_up, Activation act, Act x, int64_t rows, Act out) {
  PREFIX_CHECK(act == Activation::kSilu);
  PREFIX_CHECK(w.panels() == 2 * panels_of(n));
  GemmOutput output;
  output.gated_out = out.data;
  output.ldg = out.ld;
  output.bias_gate = bias_gate;
  output.bias_up = bias_up;
  output.columns = n;
  gemm(context_, w, x, rows, output);
}

void CpuDevice::gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n,
                            float* out, int64_t ld_out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(out + static_cast<int64_t>(i) * ld_out, x + rows[i] * ld,
                static_cast<size_t>(n) * sizeof(float));
  }
}

void CpuDevice::row_stats(const LogitBlock& block, std::span<const uint8_t> wants, RowStats* out) {
  threads_.run(block.rows, [&](int64_t i, int) {
    const int64_t row = block.first + i;
    const uint8_t want = wants[static_cast<size_t>(row)];
    out[row] = ops::row_stats({block.row(row), static_cast<size_t>(block.n)},
                              (want & kWantFirst) != 0, (want & kWantSum) != 0);
  });
}

void CpuDevice::gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                              float* out) {
  for (size_t i = 0; i < targets.size(); ++i)
    if (block.has(targets[i].row)) out[i] = block.row(targets[i].row)[targets[i].id];
}

void CpuDevice::top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                               Candidate* out) {
  threads_.run(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const int32_t row = rows[static_cast<size_t>(i)];
    if (!block.has(row)) return;
    std::vector<Candidate> best;
    ops::top_candidates({block.row(row), static_cast<size_t>(block.n)}, static_cast<size_t>(k),
                        best);
    std::copy(best.begin(), best.end(), out + i * k);
  });
}

void CpuDevice::parallel(int64_t n, const std::function<void(int64_t)>& task) {
  threads_.run(n, [&](int64_t index, int) { task(index); });
}

void CpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) {
  const auto size = static_cast<int64_t>(act_bytes());
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* const to = out.data + r * out.ld * size;
    if (context_.compute_type() == ComputeType::kBf16) {
      context_.kernels->element.to_bf16(x + r * ld, n, reinterpret_cast<uint16_t*>(to));
    } else {
      std::memcpy(to, x + r * ld, static_cast<size_t>(n * size));
    }
  }
}

// The row-wise operations and attention live in cpu/elementwise.cc and cpu/attention.cc.

void CpuDevice::rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                         int64_t n, Act out) {
  ops::rms_norm(context_, x, ld, weight, eps, rows, n, out);
}

void CpuDevice::rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                             int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  ops::rms_norm_f32(context_, x, ld, weight, eps, rows, n, out, ld_out, add);
}

void CpuDevice::qkv(const QkvArgs& args, std::span<const int32_t> positions,
                    std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool,
                    int32_t layer, Act q) {
  if (not_finite_.size() < positions.size()) not_finite_.resize(positions.size());
  ops::qkv(context_, args, positions, slots, kv, pool, layer, q, not_finite_);
}

void CpuDevice::copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                           int32_t layer) {
  ops::copy_pages(context_, copies, kv, pool, layer);
}

void CpuDevice::clear_pages(std::span<const int32_t> pages, const KvLayout& kv, std::byte* pool) {
  ops::clear_pages(context_, pages, kv, pool);
}

void CpuDevice::attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) {
  ops::attention(context_, args, kv, pool);
}

std::unique_ptr<DeviceSizes> cpu_device_sizes(const CpuOptions& options) {
  return std::make_unique<CpuSizes>(
      compute_type_of(options.types, kernel_table(choose_isa(options.isa))));
}

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace prefix::ops
