// The fused projection of rows split into q, k and v, which are written to their pages.
//
// Keys and values are scattered into their page (layout in kv_layout.h): two neighbouring
// elements of a key share 32 bits, two neighbouring *keys* of a value column do (of int8: four).
// The value of a row without its neighbours is written in 16-bit stores (bytes) and never touches
// their part of a word.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "ops/cpu/over_rows.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/step.h"
#include "ops/finite.h"
#include "ops/rotation.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

// Where a value's numbers lie in its page: those of kInWord neighbouring slots share 32 bits.
//
//   columns 0..31   [ slots 0 .. kInWord - 1 ][ the next kInWord slots ] ...   32 words each
//   columns 32..63  behind those of all slots
template <int kInWord, typename T>
void write_value(const T* value, int64_t d, std::byte* block, int32_t slot) {
  T* const out = reinterpret_cast<T*>(block) + slot / kInWord * kInWord * 32 + slot % kInWord;
  for (int64_t first = 0; first < d; first += 32) {
    T* const to = out + first * kPageTokens;
    const int64_t count = std::min<int64_t>(32, d - first);
    for (int64_t i = 0; i < count; ++i) to[i * kInWord] = value[first + i];
  }
}

// Of all slots that share words.
template <int kInWord, typename T, size_t kLength>
void write_words(const T (&values)[kInWord][kLength], int64_t d, std::byte* block, int32_t slot) {
  auto* const out = reinterpret_cast<uint32_t*>(block) + slot / kInWord * 32;
  for (int64_t first = 0; first < d; first += 32) {
    uint32_t* const to = out + first * kPageTokens / kInWord;
    const int64_t count = std::min<int64_t>(32, d - first);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t word = 0;
      for (int v = 0; v < kInWord; ++v) word |= uint32_t{values[v][first + i]} << 32 / kInWord * v;
      to[i] = word;
    }
  }
}

// Writes head vectors of one row; its memory is on the stack of a task.
class HeadWriter {
 public:
  static constexpr int64_t kMaxHeadDim = kMaxHeadRotation;

  HeadWriter(const CpuContext& context, const KvLayout& kv) : context_(context), kv_(kv) {
    PREFIX_CHECK(kv.head_dim <= kMaxHeadDim);
  }

  float* vector() { return vector_; }
  // Of all keys and values since the last call.
  bool take_finite() { return std::exchange(finite_, true); }

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
      quantise(rotation_block(d), block, slot, whole_[0]);
      auto* const quads = reinterpret_cast<uint32_t*>(block) + slot;
      for (int64_t i = 0; i < d; i += 4) {
        uint32_t quad;
        std::memcpy(&quad, whole_[0] + i, sizeof quad);
        quads[i / 4 * kPageTokens] = quad ^ 0x80808080;  // + 128
      }
      return;
    }
    round(rounded_[0]);
    auto* const out = reinterpret_cast<uint32_t*>(block) + slot;
    for (int64_t i = 0; i < d; i += 2) {
      uint32_t pair;
      std::memcpy(&pair, rounded_[0] + i, sizeof pair);
      out[i / 2 * kPageTokens] = pair;
    }
  }

  // Values whose numbers share a word.
  int64_t values_in_a_word() const {
    return kv_.type == KvType::kInt8 ? kQuad : kv_.type == KvType::kBf16 ? kPair : 1;
  }
  // The value with number `turn` of those that are written together.
  void keep_value(std::byte* block, int32_t slot, int64_t turn) {
    if (kv_.type == KvType::kF32) return zero_unless_finite(vector_);
    if (kv_.type == KvType::kInt8) return quantise(1, block, slot, whole_[turn]);
    round(rounded_[turn]);
  }
  // The values that were kept: of all slots of a word, from `slot` on, or of that one only.
  void to_values(std::byte* block, int32_t slot, bool whole_words) const {
    const int64_t d = kv_.head_dim;
    if (kv_.type == KvType::kF32) return write_value<1>(vector_, d, block, slot);
    if (kv_.type == KvType::kInt8) {
      return whole_words ? write_words(whole_, d, block, slot)
                         : write_value<kQuad>(whole_[0], d, block, slot);
    }
    return whole_words ? write_words(rounded_, d, block, slot)
                       : write_value<kPair>(rounded_[0], d, block, slot);
  }

 private:
  static constexpr int kPair = 2, kQuad = 4;

  // The scale goes behind the numbers of the block.
  void quantise(int64_t rotation, std::byte* block, int32_t slot, uint8_t* out) {
    QuantiseArgs args;
    args.x = vector_;
    args.k = kv_.head_dim;
    args.block = rotation;
    args.signs = no_signs();
    args.work = work_;
    args.out = reinterpret_cast<int8_t*>(out);
    args.k_padded = kv_.d_padded();
    float scale = context_.kernels->rows.quantise(args).scale / static_cast<float>(rotation);
    if (!all_finite(&scale, sizeof scale, KvType::kF32)) {
      finite_ = false;
      scale = 0;
    }
    reinterpret_cast<float*>(block + kv_.numbers_bytes())[slot] = scale;
  }

  void round(uint16_t* out) {
    context_.kernels->rows.to_bf16(vector_, kv_.head_dim, out);
    zero_unless_finite(out);
    out[kv_.head_dim] = 0;  // the partner of the last element of an odd head
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
  alignas(64) uint16_t rounded_[kPair][kMaxHeadDim + 2];
  alignas(64) float work_[kMaxHeadDim];
  alignas(64) uint8_t whole_[kQuad][kMaxHeadDim];
};

// q, k or v of a row: `heads` vectors of those that the projection has,
// which share how they are normed.
struct Part {
  int64_t first;
  int64_t heads;
  const float* norm;  // null: none
  bool rotate;
};

// What qkv() does with a few rows. One head of all rows after the other: the slots of neighbours
// share cache lines, which stay in L1 for as many.
class RowSplitter {
 public:
  static constexpr int64_t kMaxRows = kPageTokens;
  static_assert(kMaxRows >= kRowsPerTask);

  RowSplitter(const CpuContext& context, const StepArrays& step, const QkvArgs& args,
              int64_t offset, int64_t begin, int64_t end)
      : kernels_(context.kernels->rows),
        context_(context),
        step_(step),
        kv_(step.kv),
        args_(args),
        offset_(offset),
        begin_(begin),
        end_(end),
        writer_(context, step.kv) {}

  void queries() {
    const Part part{0, step_.heads, args_.q_norm, true};
    find_whole_scales(part);
    for (int64_t h = first_of(part); h < end_of(part); ++h)
      for (int64_t row = begin_; row < end_; ++row) {
        prefetch_to_write(query(h, std::min(row + kHeadsAhead, end_ - 1)),
                          static_cast<size_t>(kv_.head_dim) * context_.act_bytes());
        bring(part, h, row);
        writer_.to_activation(query(h, row));
      }
  }

  // Calls mark(row) for one with a key that is not finite; so does values().
  template <typename Mark>
  void keys(const Mark& mark) {
    const Part part{step_.heads, kv_.kv_heads, args_.k_norm, true};
    find_whole_scales(part);
    for (int64_t h = first_of(part); h < end_of(part); ++h)
      for (int64_t row = begin_; row < end_; ++row) {
        const KvSlot slot = slot_of(row);
        if (slot.page < 0) continue;
        bring(part, h, row);
        writer_.to_key(step_.pool + kv_.key_offset(slot.page, args_.layer, h), slot.slot);
        if (!writer_.take_finite()) mark(row);
      }
  }

  template <typename Mark>
  void values(const Mark& mark) {
    const Part part{step_.heads + kv_.kv_heads, kv_.kv_heads, nullptr, false};
    for (int64_t h = first_of(part); h < end_of(part); ++h)
      for (int64_t row = begin_; row < end_; ++row) {
        const KvSlot slot = slot_of(row);
        if (slot.page < 0) continue;
        std::byte* const block = step_.pool + kv_.value_offset(slot.page, args_.layer, h);
        const int64_t count = values_together(row);
        for (int64_t i = 0; i < count; ++i) {
          bring(part, h, row + i);
          writer_.keep_value(block, slot_of(row + i).slot, i);
          if (!writer_.take_finite()) mark(row + i);
        }
        writer_.to_values(block, slot.slot, count > 1);
        row += count - 1;
      }
  }

 private:
  KvSlot slot_of(int64_t row) const { return step_.slots[static_cast<size_t>(row)]; }

  // As many values from this row on as share words, or one where others are not beside it.
  int64_t values_together(int64_t row) const {
    const int64_t count = writer_.values_in_a_word();
    const KvSlot first = slot_of(row);
    if (row + count > end_ || first.slot % count != 0) return 1;
    for (int64_t i = 1; i < count; ++i) {
      const KvSlot next = slot_of(row + i);
      if (next.page != first.page || next.slot != first.slot + i) return 1;
    }
    return count;
  }

  // Those of a part that are there.
  int64_t first_of(const Part& part) const {
    return std::max<int64_t>(args_.first_head - part.first, 0);
  }
  int64_t end_of(const Part& part) const {
    return args_.end_head == 0 ? part.heads : std::min(args_.end_head - part.first, part.heads);
  }

  const float* vector(const Part& part, int64_t h, int64_t row) const {
    return static_cast<const float*>(args_.qkv) + (row - offset_) * args_.ld +
           (part.first + h - args_.first_head) * kv_.head_dim;
  }

  std::byte* query(int64_t h, int64_t row) const {
    return args_.q.data + static_cast<size_t>((row - offset_) * args_.q.ld + h * kv_.head_dim) *
                              context_.act_bytes();
  }

  void find_whole_scales(const Part& part) {
    if (part.norm == nullptr || !args_.norm_whole_width) return;
    for (int64_t row = begin_; row < end_; ++row)
      whole_scales_[row - begin_] =
          inverse_rms(kernels_, vector(part, 0, row), part.heads * kv_.head_dim, args_.norm_eps);
  }

  // A head vector, normed and rotated, into the writer.
  void bring(const Part& part, int64_t h, int64_t row) {
    const int64_t position = step_.rope_rows[static_cast<size_t>(row)];
    HeadArgs head;
    head.x = vector(part, h, row);
    head.head_dim = kv_.head_dim;
    head.rotary_dim = part.rotate ? args_.rotary_dim : 0;
    head.cos = args_.cos + position * (args_.rotary_dim / 2);
    head.sin = args_.sin + position * (args_.rotary_dim / 2);
    head.out = writer_.vector();
    if (part.norm != nullptr) {
      const bool whole = args_.norm_whole_width;
      head.weight = whole ? part.norm + h * kv_.head_dim : part.norm;
      head.scale = whole ? whole_scales_[row - begin_]
                         : inverse_rms(kernels_, head.x, kv_.head_dim, args_.norm_eps);
    }
    kernels_.head(head);
  }

  const RowKernels& kernels_;
  const CpuContext& context_;
  const StepArrays& step_;
  const KvLayout& kv_;
  const QkvArgs& args_;
  const int64_t offset_;  // the row that args.qkv begins with
  const int64_t begin_, end_;
  HeadWriter writer_;
  float whole_scales_[kMaxRows];
};

}  // namespace

// Of at most RowSplitter::kMaxRows; args.qkv begins with row `offset`.
void CpuStep::split_rows(const QkvArgs& args, int64_t offset, int64_t begin, int64_t end) {
  PREFIX_CHECK(arrays_.kv.type == context_.types.kv);
  PREFIX_CHECK(arrays_.slots.size() == arrays_.rope_rows.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= arrays_.kv.head_dim);
  const auto mark = [&](int64_t row) { not_finite_[static_cast<size_t>(row)] = 1; };
  RowSplitter splitter(context_, arrays_, args, offset, begin, end);
  splitter.queries();
  splitter.keys(mark);
  splitter.values(mark);
}

void CpuStep::qkv(const QkvArgs& args) {
  const auto rows = static_cast<int64_t>(arrays_.slots.size());
  // A page is best written by one thread, because its tokens share cache lines.
  const bool many = rows >= 2 * RowSplitter::kMaxRows * context_.threads->count();
  const int64_t each = many ? RowSplitter::kMaxRows : kRowsPerTask;
  context_.threads->run(ceil_div(rows, each), [&](int64_t task, int) {
    const int64_t begin = task * each;
    split_rows(args, 0, begin, std::min(rows, begin + each));
  });
}

void CpuStep::qkv_rows(const QkvArgs& args, int64_t first, int64_t rows) {
  for (int64_t begin = first; begin < first + rows; begin += RowSplitter::kMaxRows)
    split_rows(args, first, begin, std::min(first + rows, begin + RowSplitter::kMaxRows));
}

}  // namespace prefix::ops
