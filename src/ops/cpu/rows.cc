// Operations on rows: the embedding, norms, gates, conversions. q, k and v are in qkv.cc.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/status.h"
#include "ops/cpu/over_rows.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/step.h"
#include "ops/op_cpu.h"

namespace prefix::ops {

void CpuStep::embed(const PackedWeights& w, float scale, float* out, int64_t ld) {
  context_.threads->run(rows(), [&](int64_t i, int) {
    const int32_t id = arrays_.tokens[static_cast<size_t>(i)];
    PREFIX_CHECK(id >= 0 && id < w.n);
    unpack_row(w, id, scale, out + i * ld);
  });
}

void CpuDevice::rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                         int64_t n, ActivationBuffer out) {
  const RowKernels& kernels = context_.kernels->rows;
  over_rows(context_, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    prefetch_row(from + ld, static_cast<size_t>(n) * sizeof(float));
    const float scale = inverse_rms(kernels, from, n, eps);
    if (context_.act_is_bf16()) {
      auto* const to = reinterpret_cast<uint16_t*>(out.data) + row * out.ld;
      kernels.scale_bf16(from, scale, weight, n, to);
    } else {
      auto* const to = reinterpret_cast<float*>(out.data) + row * out.ld;
      kernels.scale_f32(from, scale, weight, n, to);
    }
  });
}

void CpuDevice::rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                             int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  const RowKernels& kernels = context_.kernels->rows;
  over_rows(context_, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    const float scale = inverse_rms(kernels, from, n, eps);
    (add ? kernels.scale_add : kernels.scale_f32)(from, scale, weight, n, out + row * ld_out);
  });
}

void CpuDevice::gated_norm(const GatedNormArgs& args, int64_t rows, ActivationBuffer out) {
  const RowKernels& kernels = context_.kernels->rows;
  const int64_t n = args.n;
  const bool bf16 = context_.act_is_bf16();
  over_rows_and_workers(context_, rows, [&](int64_t row, int worker) {
    const auto bytes = static_cast<size_t>(n) * sizeof(float);
    auto* const work = reinterpret_cast<float*>(context_.scratch[worker].reserve(bytes));
    for (int64_t head = 0; head < args.heads; ++head) {
      const float* const y = args.y + row * args.ld_y + head * n;
      const float* const z = args.z + row * args.ld_z + head * n;
      const float* const weight = args.weight + (args.shared_weight ? 0 : head * n);
      auto* const half = reinterpret_cast<uint16_t*>(out.data) + row * out.ld + head * n;
      auto* const full = reinterpret_cast<float*>(out.data) + row * out.ld + head * n;
      if (args.gate_first) {
        kernels.multiply_silu(y, z, n, work);
        const float scale = inverse_rms(kernels, work, n, args.eps);
        if (bf16) {
          kernels.scale_bf16(work, scale, weight, n, half);
        } else {
          kernels.scale_f32(work, scale, weight, n, full);
        }
      } else {
        kernels.scale_f32(y, inverse_rms(kernels, y, n, args.eps), weight, n, work);
        kernels.multiply_silu(work, z, n, bf16 ? work : full);
        if (bf16) kernels.to_bf16(work, n, half);
      }
    }
  });
}

void CpuDevice::multiply_sigmoid(const float* gate, int64_t ld, int64_t rows, int64_t n,
                                 ActivationBuffer x) {
  const RowKernels& kernels = context_.kernels->rows;
  over_rows(context_, rows, [&](int64_t row) {
    const float* const from = gate + row * ld;
    if (context_.act_is_bf16()) {
      kernels.multiply_sigmoid_bf16(reinterpret_cast<uint16_t*>(x.data) + row * x.ld, from, n);
    } else {
      kernels.multiply_sigmoid_f32(reinterpret_cast<float*>(x.data) + row * x.ld, from, n);
    }
  });
}

void CpuDevice::multiply(const float* x, int64_t ld, int64_t rows, int64_t n, float* y,
                         int64_t ld_y) {
  const RowKernels& kernels = context_.kernels->rows;
  over_rows(context_, rows,
            [&](int64_t row) { kernels.multiply(x + row * ld, n, y + row * ld_y); });
}

void CpuDevice::squared_relu(const float* x, int64_t ld, int64_t rows, int64_t n,
                             ActivationBuffer out) {
  const RowKernels& kernels = context_.kernels->rows;
  over_rows(context_, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    if (context_.act_is_bf16()) {
      kernels.squared_relu_bf16(from, n, reinterpret_cast<uint16_t*>(out.data) + row * out.ld);
    } else {
      kernels.squared_relu_f32(from, n, reinterpret_cast<float*>(out.data) + row * out.ld);
    }
  });
}

void CpuDevice::soft_cap(float* x, int64_t ld, int64_t rows, int64_t n, float cap) {
  over_rows(context_, rows,
            [&](int64_t row) { context_.kernels->rows.soft_cap(x + row * ld, n, cap); });
}

void CpuStep::keep_rows(const KeptRows& kept, std::span<const RowBuffer> buffers) {
  arrays_.positions = kept.positions;
  arrays_.attention = kept.attention;
  kept_ = kept.rows;
  rows_ = std::ssize(kept.rows);
  for (const RowBuffer& buffer : buffers) {
    std::byte* to = buffer.data;  // ascending: no row is written before it was moved
    for (const int32_t row : kept.rows) {
      const std::byte* const from = buffer.data + static_cast<size_t>(row) * buffer.stride;
      if (from != to) std::memcpy(to, from, buffer.bytes);
      to += buffer.stride;
    }
  }
}

void CpuStep::gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) {
  over_rows(context_, std::ssize(heads_.rows), [&](int64_t i) {
    int64_t row = heads_.rows[static_cast<size_t>(i)];
    if (!kept_.empty()) row = std::ranges::lower_bound(kept_, row) - kept_.begin();
    std::memcpy(out + i * ld_out, x + row * ld, static_cast<size_t>(n) * sizeof(float));
  });
}

void CpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, ActivationBuffer out) {
  const auto size = static_cast<int64_t>(act_bytes());
  over_rows(context_, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    std::byte* const to = out.data + row * out.ld * size;
    if (context_.act_is_bf16()) {
      context_.kernels->rows.to_bf16(from, n, reinterpret_cast<uint16_t*>(to));
    } else {
      std::memcpy(to, from, static_cast<size_t>(n * size));
    }
  });
}

}  // namespace prefix::ops
