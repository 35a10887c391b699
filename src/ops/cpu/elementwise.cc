// The row-wise operations of the CPU device: norms, splitting q k v, page copies.
//
// Keys and values are scattered into their page (layout in op.h): two neighbouring elements of a
// key share 32 bits, two neighbouring *keys* of a value column do, so the value of one row is
// written in 16-bit stores and never touches its neighbour's half.
#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "ops/finite.h"

namespace prefix::ops {
namespace {

// Rows per task where a row is little work.
constexpr int64_t kRowsPerTask = 8;

template <typename Task>
void over_rows(const CpuContext& context, int64_t rows, const Task& task) {
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  context.threads->run(tasks, [&](int64_t index, int) {
    const int64_t end = std::min(rows, (index + 1) * kRowsPerTask);
    for (int64_t row = index * kRowsPerTask; row < end; ++row) task(row);
  });
}

float inverse_rms(const ElementKernels& kernels, const float* x, int64_t n, float eps) {
  return 1.0f / std::sqrt(kernels.sum_squares(x, n) / static_cast<float>(n) + eps);
}

// Writes head vectors of one row; its memory is on the stack of a task.
class HeadWriter {
 public:
  static constexpr int64_t kMaxHeadDim = 1024;

  HeadWriter(const CpuContext& context, const KvLayout& kv) : context_(context), kv_(kv) {
    PREFIX_CHECK(kv.head_dim <= kMaxHeadDim);
  }

  float* vector() { return vector_; }
  // Of all keys and values so far.
  bool finite() const { return finite_; }

  void to_activation(std::byte* out) {
    if (context_.act_is_bf16()) {
      context_.kernels->element.to_bf16(vector_, kv_.head_dim, reinterpret_cast<uint16_t*>(out));
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
    round();
    auto* const out = reinterpret_cast<uint16_t*>(block) + slot / 2 * 64 + slot % 2;
    for (int64_t i = 0; i < d; ++i) out[i / 32 * (32 * kPageTokens) + i % 32 * 2] = rounded_[i];
  }

 private:
  void round() {
    context_.kernels->element.to_bf16(vector_, kv_.head_dim, rounded_);
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
};

// q, k or v of one row: `heads` vectors that share how they are normed.
struct Part {
  const float* x;
  int64_t heads;
  const float* norm;  // null: none
  bool rotate;
};

}  // namespace

void rms_norm(const CpuContext& context, const float* x, int64_t ld, const float* weight, float eps,
              int64_t rows, int64_t n, Act out) {
  const ElementKernels& kernels = context.kernels->element;
  over_rows(context, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    const float scale = inverse_rms(kernels, from, n, eps);
    if (context.act_is_bf16()) {
      auto* const to = reinterpret_cast<uint16_t*>(out.data) + row * out.ld;
      kernels.scale_bf16(from, scale, weight, n, to);
    } else {
      auto* const to = reinterpret_cast<float*>(out.data) + row * out.ld;
      kernels.scale_f32(from, scale, weight, n, to);
    }
  });
}

void rms_norm_f32(const CpuContext& context, const float* x, int64_t ld, const float* weight,
                  float eps, int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  const ElementKernels& kernels = context.kernels->element;
  over_rows(context, rows, [&](int64_t row) {
    const float* const from = x + row * ld;
    const float scale = inverse_rms(kernels, from, n, eps);
    (add ? kernels.scale_add : kernels.scale_f32)(from, scale, weight, n, out + row * ld_out);
  });
}

void qkv(const CpuContext& context, const QkvArgs& args, std::span<const int32_t> positions,
         std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool, int32_t layer, Act q,
         std::span<int32_t> not_finite) {
  PREFIX_CHECK(kv.type == context.types.kv);
  PREFIX_CHECK(slots.size() == positions.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= kv.head_dim);
  const ElementKernels& kernels = context.kernels->element;
  const int64_t d = kv.head_dim;
  over_rows(context, static_cast<int64_t>(positions.size()), [&](int64_t row) {
    const int64_t position = positions[static_cast<size_t>(row)];
    const KvSlot slot = slots[static_cast<size_t>(row)];
    HeadWriter writer(context, kv);
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
    each_head({x, args.heads, args.q_norm, true}, [&](int64_t h) {
      writer.to_activation(q.data + static_cast<size_t>(row * q.ld + h * d) * context.act_bytes());
    });
    if (slot.page < 0) return;
    const float* const k = x + args.heads * d;
    each_head({k, kv.kv_heads, args.k_norm, true}, [&](int64_t h) {
      writer.to_key(pool + kv.key_offset(slot.page, layer, h), slot.slot);
    });
    each_head({k + kv.kv_heads * d, kv.kv_heads, nullptr, false}, [&](int64_t h) {
      writer.to_value(pool + kv.value_offset(slot.page, layer, h), slot.slot);
    });
    if (!writer.finite()) not_finite[static_cast<size_t>(row)] = 1;
  });
}

void copy_pages(const CpuContext&, std::span<const PageCopy> copies, const KvLayout& kv,
                std::byte* pool, int32_t layer) {
  const bool bf16 = kv.type == KvType::kBf16;
  const int64_t d = kv.d_padded();
  // K is rows of 32 keys, 4 bytes each (an f32 or a pair of bf16). V is panels of 32 columns with
  // rows of one key (bf16: of two, interleaved).
  const int64_t key_rows = bf16 ? d / 2 : d;
  constexpr int64_t kKeyRowBytes = kPageTokens * 4;
  const auto panel_bytes = static_cast<int64_t>(kPageTokens * 32 * kv_bytes(kv.type));
  for (const PageCopy& copy : copies) {
    const int64_t tokens = copy.tokens;
    const int64_t whole = bf16 ? tokens / 2 * 2 : tokens;
    const size_t whole_bytes = static_cast<size_t>(whole) * 32 * kv_bytes(kv.type);
    for (int64_t head = 0; head < kv.kv_heads; ++head) {
      const std::byte* const key = pool + kv.key_offset(copy.from, layer, head);
      std::byte* const key_to = pool + kv.key_offset(copy.to, layer, head);
      for (int64_t i = 0; i < key_rows; ++i) {
        std::memcpy(key_to + i * kKeyRowBytes, key + i * kKeyRowBytes,
                    static_cast<size_t>(tokens) * 4);
      }
      const std::byte* const value = pool + kv.value_offset(copy.from, layer, head);
      std::byte* const value_to = pool + kv.value_offset(copy.to, layer, head);
      for (int64_t i = 0; i < d / 32; ++i) {
        const std::byte* const panel = value + i * panel_bytes;
        std::byte* const panel_to = value_to + i * panel_bytes;
        std::memcpy(panel_to, panel, whole_bytes);
        for (int64_t j = 0; whole < tokens && j < 32; ++j) {  // the first half of the last pair
          const int64_t at = (whole * 32 + j * 2) * 2;
          std::memcpy(panel_to + at, panel + at, 2);
        }
      }
    }
  }
}

void clear_pages(const CpuContext& context, std::span<const int32_t> pages, const KvLayout& kv,
                 std::byte* pool) {
  context.threads->run(static_cast<int64_t>(pages.size()), [&](int64_t i, int) {
    std::memset(pool + static_cast<size_t>(pages[static_cast<size_t>(i)]) * kv.page_bytes(), 0,
                kv.page_bytes());
  });
}

}  // namespace prefix::ops
