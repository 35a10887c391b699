// The scans of recurrent layers.
//
// A task is a *unit*: the part of one head's state that depends on no other part. It goes through
// all segments of the step (scan_walk.h) with its part of their states in slots, in memory of its
// thread:
//
//   Mamba-2            S [head_dim, state]         gated delta rule   S [key_dim, value_dim]
//                      ── rows of a unit ──                              | columns of a unit
//
//   task = unit   load ─> rows ─> store ─> rows ─> copy ─> rows ...    slot 0, slot 1, ...
//
// What is one number for a row and head (decays, gates, norms) is computed before, for all rows.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "ops/cpu/state_pages.h"
#include "ops/cpu/step.h"

namespace prefix::ops {
namespace {

// Tasks for each thread where the work allows it: threads get done at the same time.
constexpr int64_t kTasksPerThread = 4;
// Columns that the kernel of the gated delta rule passes at a time.
constexpr int64_t kDeltaColumns = 32;
constexpr int64_t kGateRows = 16;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// How much of `whole` a unit has, in multiples of `step`.
int64_t unit_size(int64_t heads, int64_t whole, int64_t step, int threads) {
  int64_t size = round_up(whole, step);
  const auto units = [&] { return heads * ((whole + size - 1) / size); };
  while (size > step && units() < kTasksPerThread * threads) size = round_up(size / 2, step);
  return std::min(size, whole);
}

// What the tasks of a scan share.
struct ScanCall {
  const CpuContext& context;
  const StepArrays& step;
  const ScanWalk& walk;
  std::vector<int32_t>& not_finite;
  const float* gates;  // [rows, ld_gates]
  int64_t ld_gates;

  int64_t rows() const {
    return step.scan->segments.empty() ? 0 : step.scan->segments.back().row_end;
  }
};

// The part of a state that a unit has: `lines` of `columns` floats, `ld` apart in a slot, where they
// are padded with zeros to `width`, and `stored_ld` apart in the stored state.
struct UnitShape {
  int64_t lines = 0, columns = 0, width = 0, ld = 0, stored_ld = 0;
  size_t offset = 0;  // of the first float in a stored state, bytes

  int64_t floats() const { return lines * ld; }
};

class UnitStates {
 public:
  UnitStates(const ScanCall& call, const UnitShape& shape, float* slots)
      : call_(call), shape_(shape), slots_(slots) {}

  void load(int32_t slot, int32_t state) {
    StateCursor from(call_.step, state, shape_.offset);
    float* to = at(slot);
    if (packed()) return from.read(to, shape_.floats());
    for (int64_t i = 0; i < shape_.lines; ++i, to += shape_.ld) {
      from.read(to, shape_.columns);
      from.skip(shape_.stored_ld - shape_.columns);
      std::fill(to + shape_.columns, to + shape_.width, 0.0f);
    }
  }
  void store(int32_t slot, int32_t state) {
    StateCursor to(call_.step, state, shape_.offset);
    const float* from = at(slot);
    if (packed()) return to.write(from, shape_.floats());
    for (int64_t i = 0; i < shape_.lines; ++i, from += shape_.ld) {
      to.write(from, shape_.columns);
      to.skip(shape_.stored_ld - shape_.columns);
    }
  }
  void zero(int32_t slot) { std::fill_n(at(slot), shape_.floats(), 0.0f); }
  void copy(int32_t from, int32_t to) { std::copy_n(at(from), shape_.floats(), at(to)); }

 protected:
  float* at(int32_t slot) const { return slots_ + slot * shape_.floats(); }

  // Of rows [begin, end) whose results `y` are not all finite; `n` of each.
  void mark(int64_t begin, int64_t end, const float* y, int64_t ld, int64_t n) const {
    for (int64_t row = begin; row < end; ++row) {
      const float* const numbers = y + row * ld;
      if (std::all_of(numbers, numbers + n, [](float x) { return std::isfinite(x); })) continue;
      std::atomic_ref<int32_t> flag(call_.not_finite[static_cast<size_t>(row)]);
      flag.store(1, std::memory_order_relaxed);
    }
  }

  const ScanCall& call_;
  const UnitShape& shape_;

 private:
  bool packed() const { return shape_.ld == shape_.columns && shape_.stored_ld == shape_.columns; }

  float* const slots_;
};

// Gates of a row: [heads] dt | [heads] decay.
class Mamba2Unit : public UnitStates {
 public:
  // Of `rows` rows of S from row `first` on.
  static UnitShape shape(const ScanCall& call, const Mamba2Args& args, int64_t head, int64_t first,
                         int64_t rows) {
    UnitShape shape;
    shape.lines = rows;
    shape.columns = shape.stored_ld = args.state;
    shape.width = shape.ld = round_up(args.state, call.context.kernels->scan.lanes);
    shape.offset = call.step.state.scan_offset(args.layer) +
                   static_cast<size_t>((head * args.head_dim + first) * args.state) * sizeof(float);
    return shape;
  }
  // The kernel's own memory, and B and C of some tokens, padded.
  static int64_t work_floats(const ScanCall& call, const UnitShape& shape) {
    return kScanTokens * (kScanRows * call.context.kernels->scan.lanes + 2 * shape.width);
  }
  Mamba2Unit(const ScanCall& call, const Mamba2Args& args, const UnitShape& shape, int64_t head,
             int64_t first, float* work, float* slots)
      : UnitStates(call, shape, slots), args_(args), head_(head), first_(first), work_(work) {}

  void rows(int32_t slot, int64_t begin, int64_t end) const {
    const int64_t inner = int64_t{args_.heads} * args_.head_dim;
    const int64_t column = head_ * args_.head_dim + first_;
    const int64_t b = inner + head_ / (args_.heads / args_.groups) * args_.state;
    const int64_t c = b + int64_t{args_.groups} * args_.state;
    float* const padded_b = work_ + kScanTokens * kScanRows * call_.context.kernels->scan.lanes;
    float* const padded_c = padded_b + kScanTokens * shape_.width;
    Mamba2Kernel kernel;
    kernel.s = at(slot);
    kernel.rows = shape_.lines;
    kernel.columns = shape_.width;
    kernel.ldx = args_.ld;
    kernel.ld_gates = call_.ld_gates;
    kernel.d = args_.d[head_];
    kernel.ldy = args_.ld_y;
    kernel.sums = work_;
    for (int64_t row = begin; row < end; row += kScanTokens) {
      const float* const x = args_.x + row * args_.ld;
      kernel.tokens = std::min(kScanTokens, end - row);
      kernel.x = x + column;
      kernel.b = x + b;
      kernel.c = x + c;
      kernel.ld_bc = args_.ld;
      if (shape_.width != shape_.columns) {
        kernel.b = padded(kernel.b, kernel.tokens, padded_b);
        kernel.c = padded(kernel.c, kernel.tokens, padded_c);
        kernel.ld_bc = shape_.width;
      }
      kernel.dt = call_.gates + row * call_.ld_gates + head_;
      kernel.decay = kernel.dt + args_.heads;
      kernel.y = args_.y + row * args_.ld_y + column;
      if (!call_.context.kernels->scan.mamba2(kernel))
        mark(row, row + kernel.tokens, args_.y + column, args_.ld_y, shape_.lines);
    }
  }

 private:
  const float* padded(const float* from, int64_t tokens, float* to) const {
    for (int64_t t = 0; t < tokens; ++t) {
      float* const at = to + t * shape_.width;
      std::copy_n(from + t * args_.ld, shape_.columns, at);
      std::fill(at + shape_.columns, at + shape_.width, 0.0f);
    }
    return to;
  }

  const Mamba2Args& args_;
  const int64_t head_;
  const int64_t first_;  // row of S
  float* const work_;
};

// Gates of a row: [value heads] decay | [value heads] b | [key heads] scales of q | of k.
class GatedDeltaUnit : public UnitStates {
 public:
  // Of `columns` columns of S from column `first` on.
  static UnitShape shape(const ScanCall& call, const GatedDeltaArgs& args, int64_t head,
                         int64_t first, int64_t columns) {
    UnitShape shape;
    shape.lines = args.key_dim;
    shape.columns = columns;
    shape.stored_ld = args.value_dim;
    shape.width = shape.ld = round_up(columns, call.context.kernels->scan.lanes);
    // Lines at a power of two apart would share few sets of the L1 cache.
    if (shape.ld > kDeltaColumns && shape.ld % (2 * kDeltaColumns) == 0) shape.ld += kDeltaColumns;
    const int64_t at = head * args.key_dim * args.value_dim + first;
    shape.offset =
        call.step.state.scan_offset(args.layer) + static_cast<size_t>(at) * sizeof(float);
    return shape;
  }
  static int64_t work_floats(const ScanCall&, const UnitShape&) { return 0; }
  GatedDeltaUnit(const ScanCall& call, const GatedDeltaArgs& args, const UnitShape& shape,
                 int64_t head, int64_t first, float* /*work*/, float* slots)
      : UnitStates(call, shape, slots), args_(args), head_(head), first_(first) {}

  void rows(int32_t slot, int64_t begin, int64_t end) const {
    const int64_t key_head = head_ / (args_.value_heads / args_.key_heads);
    const int64_t keys = int64_t{args_.key_heads} * args_.key_dim;
    const int64_t column = head_ * args_.value_dim + first_;
    GatedDeltaKernel kernel;
    kernel.s = at(slot);
    kernel.lds = shape_.ld;
    kernel.key_dim = args_.key_dim;
    kernel.columns = shape_.columns;
    kernel.ld = args_.ld;
    kernel.ld_scales = kernel.ld_gates = call_.ld_gates;
    kernel.ldy = args_.ld_y;
    for (int64_t row = begin; row < end; row += kDeltaTokens) {
      const float* const qkv = args_.qkv + row * args_.ld;
      const float* const gates = call_.gates + row * call_.ld_gates;
      kernel.tokens = std::min(kDeltaTokens, end - row);
      kernel.q = qkv + key_head * args_.key_dim;
      kernel.k = kernel.q + keys;
      kernel.v = qkv + 2 * keys + column;
      kernel.decay = gates + head_;
      kernel.b = kernel.decay + args_.value_heads;
      kernel.q_scale = gates + 2 * args_.value_heads + key_head;
      kernel.k_scale = kernel.q_scale + args_.key_heads;
      kernel.y = args_.y + row * args_.ld_y + column;
      if (!call_.context.kernels->scan.gated_delta(kernel))
        mark(row, row + kernel.tokens, args_.y + column, args_.ld_y, shape_.columns);
    }
  }

 private:
  // Each pass over the columns of a unit brings them into the L1 cache once for so many tokens.
  static constexpr int64_t kDeltaTokens = 64;

  const GatedDeltaArgs& args_;
  const int64_t head_;
  const int64_t first_;  // column of S
};

// Calls gate(row, out) for all rows, which writes `floats` numbers.
template <class Gate>
void compute_gates(ScanCall& call, int64_t floats, const Gate& gate) {
  const size_t bytes = static_cast<size_t>(call.rows() * floats) * sizeof(float);
  auto* const gates = reinterpret_cast<float*>(call.context.partials->reserve(bytes));
  call.gates = gates;
  call.ld_gates = floats;
  const int64_t tasks = (call.rows() + kGateRows - 1) / kGateRows;
  call.context.threads->run(tasks, [&](int64_t i, int) {
    const int64_t end = std::min(call.rows(), (i + 1) * kGateRows);
    for (int64_t row = i * kGateRows; row < end; ++row) gate(row, gates + row * floats);
  });
}

// Scans all heads, in units of `whole` rows or columns of each or of less, and returns the bytes of
// the slots of all threads.
template <class Unit, class Args>
int64_t scan_units(const ScanCall& call, const Args& args, int64_t heads, int64_t whole,
                   int64_t step) {
  const int threads = call.context.threads->count();
  const int64_t unit = unit_size(heads, whole, step, threads);
  const int64_t parts = (whole + unit - 1) / unit;
  call.context.threads->run(heads * parts, [&](int64_t i, int worker) {
    const int64_t head = i / parts, first = i % parts * unit;
    const UnitShape shape = Unit::shape(call, args, head, first, std::min(unit, whole - first));
    const int64_t work = round_up(Unit::work_floats(call, shape), 16);
    const int64_t floats = work + call.walk.slots * shape.floats();
    auto* const memory = reinterpret_cast<float*>(
        call.context.scratch[worker].reserve(static_cast<size_t>(floats) * sizeof(float)));
    Unit states(call, args, shape, head, first, memory, memory + work);
    walk_segments(*call.step.scan, call.walk, states);
  });
  const int64_t floats = call.walk.slots * Unit::shape(call, args, 0, 0, unit).floats();
  return floats * static_cast<int64_t>(sizeof(float)) * std::min<int64_t>(threads, heads * parts);
}

}  // namespace

void CpuStep::scan(const Mamba2Args& args) {
  PREFIX_CHECK(arrays_.scan != nullptr && args.layer < arrays_.state.layers);
  PREFIX_CHECK(arrays_.state.scan_floats == int64_t{args.heads} * args.head_dim * args.state);
  PREFIX_CHECK(args.heads % args.groups == 0);
  ScanCall call{context_, arrays_, walk_, not_finite_, nullptr, 0};
  PREFIX_CHECK(call.rows() <= static_cast<int64_t>(not_finite_.size()));
  compute_gates(call, 2 * args.heads, [&](int64_t row, float* out) {
    context_.kernels->scan.mamba2_gates(args.dt + row * args.ld_dt, args.dt_bias, args.a,
                                        args.dt_min, args.dt_max, args.heads, out,
                                        out + args.heads);
  });
  scan_bytes_ = std::max(scan_bytes_,
                         scan_units<Mamba2Unit>(call, args, args.heads, args.head_dim, kScanRows));
}

void CpuStep::scan(const GatedDeltaArgs& args) {
  PREFIX_CHECK(arrays_.scan != nullptr && args.layer < arrays_.state.layers);
  PREFIX_CHECK(arrays_.state.scan_floats ==
               int64_t{args.value_heads} * args.key_dim * args.value_dim);
  PREFIX_CHECK(args.value_heads % args.key_heads == 0);
  ScanCall call{context_, arrays_, walk_, not_finite_, nullptr, 0};
  PREFIX_CHECK(call.rows() <= static_cast<int64_t>(not_finite_.size()));
  const float q_factor = 1.0f / std::sqrt(static_cast<float>(args.key_dim));
  const auto inverse_norm = [&](const float* x) {
    return 1.0f / std::sqrt(context_.kernels->rows.sum_squares(x, args.key_dim) + 1e-6f);
  };
  compute_gates(call, 2 * (args.value_heads + args.key_heads), [&](int64_t row, float* out) {
    context_.kernels->scan.gated_delta_gates(args.a + row * args.ld_ab, args.dt_bias, args.a_scale,
                                             args.b + row * args.ld_ab, args.value_heads, out,
                                             out + args.value_heads);
    float* const q_scale = out + 2 * args.value_heads;
    const float* const q = args.qkv + row * args.ld;
    for (int64_t head = 0; head < args.key_heads; ++head) {
      q_scale[head] = inverse_norm(q + head * args.key_dim) * q_factor;
      q_scale[args.key_heads + head] = inverse_norm(q + (args.key_heads + head) * args.key_dim);
    }
  });
  scan_bytes_ = std::max(scan_bytes_, scan_units<GatedDeltaUnit>(call, args, args.value_heads,
                                                                 args.value_dim, kDeltaColumns));
}

}  // namespace prefix::ops
