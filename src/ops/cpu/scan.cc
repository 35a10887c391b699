// The scans of recurrent layers.
//
// A task is a *unit*: some heads, or where there are few heads for the threads a part of one that
// depends on no other part. It goes through all segments of the step (scan_walk.h) with its part of
// their states in slots, in memory of its thread:
//
//   S of Mamba-2            [state, head_dim]
//     of the gated delta    [key_dim, value_dim]
//     rule                          | columns of a unit
//
//   task = unit   load ─> rows ─> store ─> rows ─> copy ─> rows ...    slot 0, slot 1, ...
//
// Rows go through all heads of a unit in blocks: what heads share (B and C, or keys and queries) is
// read from memory once, while the states stay in the L2 cache.
//
// What is one number for a row and head (decays, gates, norms) is computed before, for all rows.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "ops/cpu/scan_units.h"
#include "ops/cpu/state_pages.h"
#include "ops/cpu/step.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

constexpr int64_t kGateRows = 16;

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

// The part of a state that a unit has: of each head `lines` of `columns` floats, `ld` apart in a
// slot, where they are padded with zeros to `width`, and `stored_ld` apart in the stored state.
struct UnitShape {
  int64_t heads = 0, lines = 0, columns = 0, width = 0, ld = 0, stored_ld = 0;
  size_t offset = 0;  // of the first float in a stored state, bytes

  int64_t head_floats() const { return lines * ld; }
  int64_t floats() const { return heads * head_floats(); }
};

// Of a unit of heads whose S is [lines, columns].
UnitShape unit_shape(const ScanCall& call, int32_t layer, int64_t lines, int64_t columns,
                     const Unit& unit) {
  UnitShape shape;
  shape.heads = unit.heads;
  shape.lines = lines;
  shape.columns = unit.size;
  shape.stored_ld = columns;
  const int64_t lanes = call.context.kernels->scan.lanes;
  shape.width = round_up(unit.size, lanes);
  shape.ld = unit_line(unit.size, lanes);
  const int64_t at = unit.head * lines * columns + unit.first;
  shape.offset = call.step.state.scan_offset(layer) + static_cast<size_t>(at) * sizeof(float);
  return shape;
}

// Asks for n columns of rows [begin, end) to be in L2: the hardware follows no row to the next.
void prefetch_rows(const float* x, int64_t ld, int64_t begin, int64_t end, int64_t n) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + row * ld + i, 0, 2);
}

// Heads [begin, end) of a unit: S of the first is at s, its lines `ld` floats apart.
struct Heads {
  int64_t begin, end;
  float* s;
  int64_t ld;
};

class UnitStates {
 public:
  UnitStates(const ScanCall& call, const UnitShape& shape, float* slots)
      : call_(call), shape_(shape), slots_(slots) {}

  void load(int32_t slot, int32_t state) { load(slot, state, 0, shape_.heads); }
  void store(int32_t slot, int32_t state) { store(slot, state, 0, shape_.heads); }
  void zero(int32_t slot) { std::fill_n(at(slot), shape_.floats(), 0.0f); }
  void copy(int32_t from, int32_t to) { std::copy_n(at(from), shape_.floats(), at(to)); }

 protected:
  float* at(int32_t slot, int64_t head = 0) const {
    return slots_ + slot * shape_.floats() + head * shape_.head_floats();
  }

  // Calls over(heads) of each head where its part of the stored state lies in one piece, and of the
  // others after it was brought into the slot and before it goes back.
  template <class Over>
  void over_stored(int32_t slot, int32_t state, const Over& over) {
    const int64_t floats = (shape_.lines - 1) * shape_.stored_ld + shape_.columns;
    const auto in_place = [&](int64_t head) {
      const bool whole_vectors = shape_.width == shape_.columns;
      return whole_vectors && head < shape_.heads ? stored(state, head).in_page(floats) : nullptr;
    };
    float* s = in_place(0);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      float* const next = in_place(head + 1);
      if (next != nullptr) prefetch_rows(next, shape_.stored_ld, 0, shape_.lines, shape_.columns);
      if (s != nullptr) {
        over(Heads{head, head + 1, s, shape_.stored_ld});
      } else {
        load(slot, state, head, head + 1);
        over(Heads{head, head + 1, at(slot, head), shape_.ld});
        store(slot, state, head, head + 1);
      }
      s = next;
    }
  }

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
  StateCursor stored(int32_t state, int64_t head) const {
    const int64_t at = head * shape_.lines * shape_.stored_ld;
    return {call_.step, state, shape_.offset + static_cast<size_t>(at) * sizeof(float)};
  }
  void load(int32_t slot, int32_t state, int64_t head, int64_t end) {
    StateCursor from = stored(state, head);
    float* to = at(slot, head);
    if (packed()) return from.read(to, (end - head) * shape_.head_floats());
    for (int64_t i = head * shape_.lines; i < end * shape_.lines; ++i, to += shape_.ld) {
      from.read(to, shape_.columns);
      from.skip(shape_.stored_ld - shape_.columns);
      std::fill(to + shape_.columns, to + shape_.width, 0.0f);
    }
  }
  void store(int32_t slot, int32_t state, int64_t head, int64_t end) {
    StateCursor to = stored(state, head);
    const float* from = at(slot, head);
    if (packed()) return to.write(from, (end - head) * shape_.head_floats());
    for (int64_t i = head * shape_.lines; i < end * shape_.lines; ++i, from += shape_.ld) {
      to.write(from, shape_.columns);
      to.skip(shape_.stored_ld - shape_.columns);
    }
  }
  bool packed() const { return shape_.ld == shape_.columns && shape_.stored_ld == shape_.columns; }

  float* const slots_;
};

// Gates of a row: [heads] dt | [heads] decay.
class Mamba2States : public UnitStates {
 public:
  static UnitShape shape(const ScanCall& call, const Mamba2Args& args, const Unit& unit) {
    return unit_shape(call, args.layer, args.state, args.head_dim, unit);
  }
  Mamba2States(const ScanCall& call, const Mamba2Args& args, const UnitShape& shape,
               const Unit& unit, float* slots)
      : UnitStates(call, shape, slots), args_(args), unit_(unit) {}

  void rows(int32_t slot, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; row += kMamba2Tokens)
      block({0, shape_.heads, at(slot), shape_.ld}, row, std::min(end, row + kMamba2Tokens));
  }
  void step(int32_t slot, int32_t state, int64_t row) {
    over_stored(slot, state, [&](const Heads& heads) { block(heads, row, row + 1); });
  }

 private:
  void block(const Heads& heads, int64_t row, int64_t end) const {
    const int64_t inner = int64_t{args_.heads} * args_.head_dim;
    const int64_t group_heads = args_.heads / args_.groups;
    const int64_t next = std::min(call_.rows(), end + kMamba2Tokens);
    const float* const x = args_.x + row * args_.ld;
    Mamba2Kernel kernel;
    kernel.lds = heads.ld;
    kernel.state = args_.state;
    kernel.columns = shape_.columns;
    kernel.tokens = end - row;
    kernel.ldx = kernel.ld_bc = args_.ld;
    kernel.ld_gates = call_.ld_gates;
    kernel.ldy = args_.ld_y;
    for (int64_t i = heads.begin; i < heads.end; ++i) {
      const int64_t head = unit_.head + i, column = head * args_.head_dim + unit_.first;
      if (i == heads.begin || head % group_heads == 0) {
        const int64_t b = inner + head / group_heads * args_.state;
        const int64_t c = b + int64_t{args_.groups} * args_.state;
        prefetch_rows(args_.x + b, args_.ld, end, next, args_.state);
        prefetch_rows(args_.x + c, args_.ld, end, next, args_.state);
        kernel.b = x + b;
        kernel.c = x + c;
      }
      prefetch_rows(args_.x + column, args_.ld, end, next, shape_.columns);
      kernel.s = heads.s + (i - heads.begin) * shape_.head_floats();
      kernel.x = x + column;
      kernel.dt = call_.gates + row * call_.ld_gates + head;
      kernel.decay = kernel.dt + args_.heads;
      kernel.d = args_.d[head];
      kernel.y = args_.y + row * args_.ld_y + column;
      if (!call_.context.kernels->scan.mamba2(kernel))
        mark(row, end, args_.y + column, args_.ld_y, shape_.columns);
    }
  }

  const Mamba2Args& args_;
  const Unit& unit_;
};

// Gates of a row: [value heads] decay | [value heads] b | [key heads] scales of q | of k.
class GatedDeltaStates : public UnitStates {
 public:
  static UnitShape shape(const ScanCall& call, const GatedDeltaArgs& args, const Unit& unit) {
    return unit_shape(call, args.layer, args.key_dim, args.value_dim, unit);
  }
  GatedDeltaStates(const ScanCall& call, const GatedDeltaArgs& args, const UnitShape& shape,
                   const Unit& unit, float* slots)
      : UnitStates(call, shape, slots), args_(args), unit_(unit) {}

  void rows(int32_t slot, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; row += kDeltaTokens)
      block({0, shape_.heads, at(slot), shape_.ld}, row, std::min(end, row + kDeltaTokens));
  }
  void step(int32_t slot, int32_t state, int64_t row) {
    over_stored(slot, state, [&](const Heads& heads) { block(heads, row, row + 1); });
  }

 private:
  // For so many tokens the columns that the kernel passes stay in the L1 cache.
  static constexpr int64_t kDeltaTokens = 32;

  void block(const Heads& heads, int64_t row, int64_t end) const {
    const int64_t key_heads = args_.key_heads, value_heads = args_.value_heads;
    const int64_t keys = key_heads * args_.key_dim;
    const int64_t next = std::min(call_.rows(), end + kDeltaTokens);
    const float* const gates = call_.gates + row * call_.ld_gates;
    GatedDeltaKernel kernel;
    kernel.lds = heads.ld;
    kernel.key_dim = args_.key_dim;
    kernel.columns = shape_.columns;
    kernel.tokens = end - row;
    kernel.ld = args_.ld;
    kernel.ld_scales = kernel.ld_gates = call_.ld_gates;
    kernel.ldy = args_.ld_y;
    for (int64_t i = heads.begin; i < heads.end; ++i) {
      const int64_t head = unit_.head + i, key_head = head / (value_heads / key_heads);
      const int64_t q = key_head * args_.key_dim;
      const int64_t column = head * args_.value_dim + unit_.first;
      prefetch_rows(args_.qkv + q, args_.ld, end, next, args_.key_dim);
      prefetch_rows(args_.qkv + keys + q, args_.ld, end, next, args_.key_dim);
      prefetch_rows(args_.qkv + 2 * keys + column, args_.ld, end, next, shape_.columns);
      kernel.s = heads.s + (i - heads.begin) * shape_.head_floats();
      kernel.q = args_.qkv + row * args_.ld + q;
      kernel.k = kernel.q + keys;
      kernel.v = args_.qkv + row * args_.ld + 2 * keys + column;
      kernel.decay = gates + head;
      kernel.b = kernel.decay + value_heads;
      kernel.q_scale = gates + 2 * value_heads + key_head;
      kernel.k_scale = kernel.q_scale + key_heads;
      kernel.y = args_.y + row * args_.ld_y + column;
      if (!call_.context.kernels->scan.gated_delta(kernel))
        mark(row, end, args_.y + column, args_.ld_y, shape_.columns);
    }
  }

  const GatedDeltaArgs& args_;
  const Unit& unit_;
};

// Calls gate(row, out) for all rows, which writes `floats` numbers.
template <class Gate>
void compute_gates(ScanCall& call, int64_t floats, const Gate& gate) {
  const size_t bytes = static_cast<size_t>(call.rows() * floats) * sizeof(float);
  auto* const gates = reinterpret_cast<float*>(call.context.partials->reserve(bytes));
  call.gates = gates;
  call.ld_gates = floats;
  call.context.threads->run(ceil_div(call.rows(), kGateRows), [&](int64_t i, int) {
    const int64_t end = std::min(call.rows(), (i + 1) * kGateRows);
    for (int64_t row = i * kGateRows; row < end; ++row) gate(row, gates + row * floats);
  });
}

// Scans all units and returns the bytes of the slots of all threads.
template <class States, class Args>
int64_t scan_units(const ScanCall& call, const Args& args, const Units& units) {
  call.context.threads->run(units.count(), [&](int64_t i, int worker) {
    const Unit unit = units[i];
    const UnitShape shape = States::shape(call, args, unit);
    const int64_t floats = call.walk.slots * shape.floats();
    auto* const memory = reinterpret_cast<float*>(
        call.context.scratch[worker].reserve(static_cast<size_t>(floats) * sizeof(float)));
    States states(call, args, shape, unit, memory);
    walk_segments(*call.step.scan, call.walk, states);
  });
  const int64_t at_once = std::min<int64_t>(call.context.threads->count(), units.count());
  const int64_t floats = call.walk.slots * States::shape(call, args, units[0]).floats();
  return at_once * floats * static_cast<int64_t>(sizeof(float));
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
  const Units units(args.heads, args.head_dim, context_.threads->count());
  scan_bytes_ = std::max(scan_bytes_, scan_units<Mamba2States>(call, args, units));
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
  const Units units(args.value_heads, args.value_dim, context_.threads->count());
  scan_bytes_ = std::max(scan_bytes_, scan_units<GatedDeltaStates>(call, args, units));
}

}  // namespace prefix::ops
