// Operations on rows: the embedding, norms, gates, q k v split and written to their pages.
//
// Keys and values are scattered into their page (layout in op.h): two neighbouring elements of a
// key share 32 bits, two neighbouring *keys* of a value column do, so the value of one row is
// written in 16-bit stores and never touches its neighbour's half (of int8: four, and bytes).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/step.h"
#include "ops/finite.h"
#include "ops/op_cpu.h"
#include "ops/rotation.h"

namespace prefix::ops {
namespace {

// Rows per task where a row is little work.
constexpr int64_t kRowsPerTask = 8;

template <typename Task>
void over_rows_and_workers(const CpuContext& context, int64_t rows, const Task& task) {
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  context.threads->run(tasks, [&](int64_t index, int worker) {
    const int64_t end = std::min(rows, (index + 1) * kRowsPerTask);
    for (int64_t row = index * kRowsPerTask; row < end; ++row) task(row, worker);
  });
}

template <typename Task>
void over_rows(const CpuContext& context, int64_t rows, const Task& task) {
  over_rows_and_workers(context, rows, [&](int64_t row, int) { task(row); });
}

float inverse_rms(const RowKernels& kernels, const float* x, int64_t n, float eps) {
  return 1.0f / std::sqrt(kernels.sum_squares(x, n) / static_cast<float>(n) + eps);
}

// Writes head vectors of one row; its memory is on the stack of a task.
class HeadWriter {
 public:
  static constexpr int64_t kMaxHeadDim = kMaxHeadRotation;

  HeadWriter(const CpuContext& context, const KvLayout& kv) : context_(context), kv_(kv) {
    PREFIX_CHECK(kv.head_dim <= kMaxHeadDim);
  }

  float* vector() { return vector_; }
  // Of all keys and values so far.
  bool finite() const { return finite_; }

  void to_activation(std::byte* out) {
    if (context_.act_is_bf16()) {
      context_.kernels->rows.to_bf16(vector_, kv_.head_dim, reinterpret_cast<uint16_t*>(out));
    } else {
      std::memcpy(out, vector_, static_cast<size_t>(kv_.head_dim) * sizeof(float));
    }
  }

  void to_key(std::byte* block, int32_t slot) {
    const int64_t d = kv_.head_dim;
    if (kv_.type == KvType::kF32) {
      zero_unless_finite(vector_);
      auto* const out = reinterpret_cast<float*>(block) + slot;
      for (int64_t i = 0; i < d; ++i) out[i * kPageTokens] = vector_[i];
      return;
    }
    if (kv_.type == KvType::kInt8) {
      quantise(rotation_block(d), block, slot);
      auto* const quads = reinterpret_cast<uint32_t*>(block) + slot;
      for (int64_t i = 0; i < d; i += 4) {
        uint32_t quad;
        std::memcpy(&quad, whole_ + i, sizeof quad);
        quads[i / 4 * kPageTokens] = quad ^ 0x80808080;  // + 128
      }
      return;
    }
    round();
    auto* const out = reinterpret_cast<uint32_t*>(block) + slot;
    for (int64_t i = 0; i < d; i += 2) {
      uint32_t pair;
      std::memcpy(&pair, rounded_ + i, sizeof pair);
      out[i / 2 * kPageTokens] = pair;
    }
  }

  void to_value(std::byte* block, int32_t slot) {
    const int64_t d = kv_.head_dim;
    if (kv_.type == KvType::kF32) {
      zero_unless_finite(vector_);
      auto* const out = reinterpret_cast<float*>(block) + slot * 32;
      for (int64_t i = 0; i < d; i += 32) {
        std::memcpy(out + i * kPageTokens, vector_ + i,
                    static_cast<size_t>(std::min<int64_t>(32, d - i)) * sizeof(float));
      }
      return;
    }
    if (kv_.type == KvType::kInt8) {
      quantise(1, block, slot);
      auto* const out = reinterpret_cast<int8_t*>(block) + slot / 4 * 128 + slot % 4;
      for (int64_t i = 0; i < d; ++i) out[i / 32 * (32 * kPageTokens) + i % 32 * 4] = whole_[i];
      return;
    }
    round();
    auto* const out = reinterpret_cast<uint16_t*>(block) + slot / 2 * 64 + slot % 2;
    for (int64_t i = 0; i < d; ++i) out[i / 32 * (32 * kPageTokens) + i % 32 * 2] = rounded_[i];
  }

 private:
  // Into whole_, and the scale behind the numbers of the block.
  void quantise(int64_t rotation, std::byte* block, int32_t slot) {
    QuantiseArgs args;
    args.x = vector_;
    args.k = kv_.head_dim;
    args.block = rotation;
    args.signs = no_signs();
    args.work = work_;
    args.out = whole_;
    args.k_padded = kv_.d_padded();
    float scale = context_.kernels->rows.quantise(args).scale / static_cast<float>(rotation);
    if (!all_finite(&scale, sizeof scale, KvType::kF32)) {
      finite_ = false;
      scale = 0;
    }
    reinterpret_cast<float*>(block + kv_.numbers_bytes())[slot] = scale;
  }

  void round() {
    context_.kernels->rows.to_bf16(vector_, kv_.head_dim, rounded_);
    zero_unless_finite(rounded_);
    rounded_[kv_.head_dim] = 0;  // the partner of the last element of an odd head
  }

  template <typename T>
  void zero_unless_finite(T* elements) {
    const auto n = static_cast<size_t>(kv_.head_dim);
    if (all_finite(elements, n * sizeof(T), kv_.type)) return;
    finite_ = false;
    for (size_t i = 0; i < n; ++i)
      if (!all_finite(elements + i, sizeof(T), kv_.type)) elements[i] = 0;
  }

  const CpuContext& context_;
  const KvLayout& kv_;
  bool finite_ = true;
  alignas(64) float vector_[kMaxHeadDim];
  alignas(64) uint16_t rounded_[kMaxHeadDim + 2];
  alignas(64) float work_[kMaxHeadDim];
  alignas(64) int8_t whole_[kMaxHeadDim];
};

// q, k or v of one row: `heads` vectors that share how they are normed.
struct Part {
  const float* x;
  int64_t heads;
  const float* norm;  // null: none
  bool rotate;
};

}  // namespace

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

void CpuStep::qkv(const QkvArgs& args) {
  const KvLayout& kv = arrays_.kv;
  PREFIX_CHECK(kv.type == context_.types.kv);
  PREFIX_CHECK(arrays_.slots.size() == arrays_.rope_rows.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= kv.head_dim);
  const RowKernels& kernels = context_.kernels->rows;
  const int32_t heads = arrays_.heads;
  const int64_t d = kv.head_dim;
  over_rows(context_, static_cast<int64_t>(arrays_.slots.size()), [&](int64_t row) {
    const int64_t position = arrays_.rope_rows[static_cast<size_t>(row)];
    const KvSlot slot = arrays_.slots[static_cast<size_t>(row)];
    HeadWriter writer(context_, kv);
    // Calls write(head) after each vector of the part has been brought into the writer.
    const auto each_head = [&](const Part& part, auto&& write) {
      HeadArgs head;
      head.head_dim = d;
      head.rotary_dim = part.rotate ? args.rotary_dim : 0;
      head.cos = args.cos + position * (args.rotary_dim / 2);
      head.sin = args.sin + position * (args.rotary_dim / 2);
      head.out = writer.vector();
      if (part.norm != nullptr && args.norm_whole_width)
        head.scale = inverse_rms(kernels, part.x, part.heads * d, args.norm_eps);
      for (int64_t h = 0; h < part.heads; ++h) {
        head.x = part.x + h * d;
        if (part.norm != nullptr) {
          head.weight = args.norm_whole_width ? part.norm + h * d : part.norm;
          if (!args.norm_whole_width) head.scale = inverse_rms(kernels, head.x, d, args.norm_eps);
        }
        kernels.head(head);
        write(h);
      }
    };
    const float* const x = static_cast<const float*>(args.qkv) + row * args.ld;
    each_head({x, heads, args.q_norm, true}, [&](int64_t h) {
      writer.to_activation(args.q.data +
                           static_cast<size_t>(row * args.q.ld + h * d) * context_.act_bytes());
    });
    if (slot.page < 0) return;
    const float* const k = x + heads * d;
    each_head({k, kv.kv_heads, args.k_norm, true}, [&](int64_t h) {
      writer.to_key(arrays_.pool + kv.key_offset(slot.page, args.layer, h), slot.slot);
    });
    each_head({k + kv.kv_heads * d, kv.kv_heads, nullptr, false}, [&](int64_t h) {
      writer.to_value(arrays_.pool + kv.value_offset(slot.page, args.layer, h), slot.slot);
    });
    if (!writer.finite()) not_finite_[static_cast<size_t>(row)] = 1;
  });
}

void CpuStep::gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) {
  for (size_t i = 0; i < heads_.rows.size(); ++i) {
    std::memcpy(out + static_cast<int64_t>(i) * ld_out, x + heads_.rows[i] * ld,
                static_cast<size_t>(n) * sizeof(float));
  }
}

void CpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, ActivationBuffer out) {
  const auto size = static_cast<int64_t>(act_bytes());
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* const to = out.data + r * out.ld * size;
    if (context_.act_is_bf16()) {
      context_.kernels->rows.to_bf16(x + r * ld, n, reinterpret_cast<uint16_t*>(to));
    } else {
      std::memcpy(to, x + r * ld, static_cast<size_t>(n * size));
    }
  }
}

}  // namespace prefix::ops
