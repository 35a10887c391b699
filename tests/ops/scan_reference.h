// Recurrent layers with made-up weights and tokens, runs of them, and the same in float64.
//
//   Recurrent (shapes, weights) ─┬─ run(device, plan, tokens, pool) ──> Result, states in the pool
//   Tokens (inputs of each row)  ├─ float64(plan, tokens, pool) ─────> Expected
//   Pool (pages, stored states) ─┘
//
// The formulas are written from the comments of step.h, on purpose not from the library's code. The
// convolution and the scan have inputs of their own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/step.h"

namespace prefix::ops::testing {

using Rng = std::mt19937_64;

inline int64_t pick(Rng& rng, int64_t low, int64_t high) {  // low..high, both included
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}
inline std::vector<float> random_floats(Rng& rng, int64_t n, float low, float high) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = std::uniform_real_distribution<float>(low, high)(rng);
  return v;
}

enum class RecurrentKind { kMamba2, kGatedDelta };

inline constexpr int32_t kLayer = 1;  // of two

struct Recurrent {
  RecurrentKind kind = RecurrentKind::kMamba2;
  int32_t heads = 1;      // value heads
  int32_t key_heads = 1;  // groups
  int32_t head_dim = 1;   // P, or value_dim
  int32_t inner_dim = 1;  // N, or key_dim
  int32_t channels = 3, width = 4;
  bool bias = true, silu = true;
  float dt_max = 0;
  std::vector<float> conv_weight, conv_bias, dt_bias, a, d;

  bool mamba() const { return kind == RecurrentKind::kMamba2; }
  std::string name() const {
    return cat(mamba() ? "mamba2" : "gated delta", " heads ", heads, "/", key_heads, " of ",
               head_dim, " x ", inner_dim, ", ", channels, " channels, width ", width);
  }
  int64_t scan_width() const {
    return int64_t{heads} * head_dim + 2 * int64_t{key_heads} * inner_dim;
  }
  int64_t scan_ld() const { return scan_width() + 3; }
  // The last number of a row that goes into one row or column of one head's state only.
  int64_t last_input() const { return mamba() ? int64_t{heads} * head_dim - 1 : scan_width() - 1; }
  StateLayout layout() const {
    StateLayout layout;
    layout.layers = 2;
    layout.conv_channels = channels;
    layout.conv_width = width;
    layout.scan_floats = int64_t{heads} * head_dim * inner_dim;
    return layout;
  }
  void fill_constants(Rng& rng) {
    conv_weight = random_floats(rng, int64_t{channels} * width, -1, 1);
    conv_bias = random_floats(rng, channels, -1, 1);
    dt_bias = random_floats(rng, heads, -3, 1);
    a = random_floats(rng, heads, -2, -0.01f);
    d = random_floats(rng, heads, -1, 1);
  }
};

inline Recurrent random_model(RecurrentKind kind, Rng& rng) {
  Recurrent model;
  model.kind = kind;
  // Few large heads, of which tasks have parts, or many small ones, of which they have several.
  const bool many = pick(rng, 0, 3) == 0;
  model.key_heads = static_cast<int32_t>(pick(rng, 1, many ? 4 : 2));
  model.heads = model.key_heads * static_cast<int32_t>(pick(rng, many ? 4 : 1, many ? 7 : 3));
  model.head_dim = static_cast<int32_t>(pick(rng, 0, 2) == 0 ? 32 : pick(rng, 1, many ? 20 : 70));
  model.inner_dim = static_cast<int32_t>(pick(rng, 0, 3) == 0 ? 64 : pick(rng, 1, 130));
  model.channels = static_cast<int32_t>(pick(rng, 1, 300));
  model.width = static_cast<int32_t>(pick(rng, 2, 5));
  model.bias = pick(rng, 0, 1) == 1;
  model.silu = pick(rng, 0, 3) > 0;
  model.dt_max = pick(rng, 0, 1) == 1 ? 0.5f : 0;
  model.fill_constants(rng);
  return model;
}

inline int32_t rows_of(const ScanPlan& plan) { return plan.segments.back().row_end; }

// Rows [begin, end) of an array of `rows` rows.
inline std::vector<float> part(const std::vector<float>& v, int64_t rows, int64_t begin,
                               int64_t end) {
  const auto width = static_cast<int64_t>(v.size()) / rows;
  return {v.begin() + begin * width, v.begin() + end * width};
}

struct Tokens {
  int32_t rows = 0;
  std::vector<float> conv;  // [rows, channels]
  std::vector<float> scan;  // [rows, scan_ld]
  std::vector<float> dt;    // [rows, heads]: dt, or a
  std::vector<float> b;     // [rows, heads]

  std::vector<float> pick_rows(const std::vector<float>& v,
                               const std::vector<int32_t>& which) const {
    const auto width = static_cast<int64_t>(v.size()) / rows;
    std::vector<float> out;
    for (const int32_t row : which)
      out.insert(out.end(), v.begin() + row * width, v.begin() + (row + 1) * width);
    return out;
  }
  Tokens only(const std::vector<int32_t>& which) const {
    return {static_cast<int32_t>(which.size()), pick_rows(conv, which), pick_rows(scan, which),
            pick_rows(dt, which), pick_rows(b, which)};
  }
  Tokens rows_from(int32_t first) const {
    std::vector<int32_t> which(static_cast<size_t>(rows - first));
    std::iota(which.begin(), which.end(), first);
    return only(which);
  }
};

inline Tokens random_tokens(const Recurrent& model, int32_t rows, Rng& rng) {
  Tokens tokens;
  tokens.rows = rows;
  tokens.conv = random_floats(rng, int64_t{rows} * model.channels, -1, 1);
  tokens.scan = random_floats(rng, rows * model.scan_ld(), -1, 1);
  tokens.dt = random_floats(rng, int64_t{rows} * model.heads, -2, 2);
  tokens.b = random_floats(rng, int64_t{rows} * model.heads, -3, 3);
  return tokens;
}

// Pages of 4 KB, smaller than most states: each state has pages of its own, from all over the pool.
inline constexpr KvLayout kPoolLayout{KvType::kBf16, 1, 1, 32};

inline ScanPlan make_plan(const Recurrent& model, int32_t states,
                          std::vector<ScanSegment> segments) {
  ScanPlan plan;
  plan.segments = std::move(segments);
  plan.state_pages = model.layout().pages(kPoolLayout.page_bytes());
  plan.pages.resize(static_cast<size_t>(states) * static_cast<size_t>(plan.state_pages));
  std::iota(plan.pages.begin(), plan.pages.end(), 0);
  std::shuffle(plan.pages.begin(), plan.pages.end(), Rng(7));
  return plan;
}

// Every segment hangs under the one before it, one of that one's ancestors, or begins a text.
// States 0 to 2 are read, 2 to 5 written.
inline ScanPlan random_plan(const Recurrent& model, Rng& rng, int segments, int max_rows) {
  std::vector<ScanSegment> list;
  int32_t row = 0;
  for (int i = 0; i < segments; ++i) {
    int32_t parent = i - 1;
    while (parent >= 0 && pick(rng, 0, 1) == 0) parent = list[static_cast<size_t>(parent)].parent;
    const auto end = row + static_cast<int32_t>(pick(rng, 1, max_rows));
    list.push_back({row, end, parent, parent < 0 ? static_cast<int32_t>(pick(rng, -1, 2)) : -1});
    row = end;
  }
  ScanPlan plan = make_plan(model, 6, std::move(list));
  for (int32_t r = 0; r < row; ++r)
    while (pick(rng, 0, 7) == 0) plan.writes.push_back({r, static_cast<int32_t>(pick(rng, 2, 5))});
  return plan;
}

// The rows from the beginning of a segment's path to its end.
inline std::vector<int32_t> path_rows(const ScanPlan& plan, int32_t segment) {
  const ScanSegment& s = plan.segments[static_cast<size_t>(segment)];
  std::vector<int32_t> rows;
  if (s.parent >= 0) rows = path_rows(plan, s.parent);
  for (int32_t row = s.row_begin; row < s.row_end; ++row) rows.push_back(row);
  return rows;
}
inline int32_t from_of(const ScanPlan& plan, int32_t segment) {
  const ScanSegment& s = plan.segments[static_cast<size_t>(segment)];
  return s.parent >= 0 ? from_of(plan, s.parent) : s.from;
}

struct Expected;

class Pool {
 public:
  Pool(const Recurrent& model, const ScanPlan& plan, Rng& rng) : plan_(plan) {
    // One page more than the states need.
    const size_t floats = (plan.pages.size() + 1) * kPoolLayout.page_bytes() / sizeof(float);
    floats_ = random_floats(rng, static_cast<int64_t>(floats), -1, 1);
    before_ = floats_;
    static_cast<void>(model);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(floats_.data()); }
  std::vector<std::byte> bytes() { return {data(), data() + floats_.size() * sizeof(float)}; }
  void set(const std::vector<std::byte>& bytes) { std::memcpy(data(), bytes.data(), bytes.size()); }

  // Where float i of a state lies in floats_.
  size_t at(int32_t state, int64_t i) const {
    const auto page_floats = static_cast<int64_t>(kPoolLayout.page_bytes() / sizeof(float));
    const int64_t page = int64_t{state} * plan_.state_pages + i / page_floats;
    return static_cast<size_t>(plan_.pages[static_cast<size_t>(page)] * page_floats +
                               i % page_floats);
  }
  // The part of layer kLayer: convolution, then scan.
  std::vector<float> state(const Recurrent& model, int32_t state) const {
    const auto n = static_cast<int64_t>(model.layout().layer_bytes() / sizeof(float));
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(floats_[at(state, kLayer * n + i)]);
    return values;
  }
  bool others_untouched(const Recurrent& model, const Expected& want) const;

 private:
  const ScanPlan plan_;
  std::vector<float> floats_, before_;
};

struct Result {
  std::vector<float> conv, y;
  std::vector<int32_t> flags;
  int64_t bytes = 0;
};

inline Result run(Device& device, const Recurrent& model, const ScanPlan& plan,
                  const Tokens& tokens, Pool& pool) {
  const int32_t rows = rows_of(plan);
  const std::vector<KvSlot> slots(static_cast<size_t>(rows), KvSlot{-1, 0});
  StepArrays arrays;
  arrays.slots = slots;
  arrays.kv = kPoolLayout;
  arrays.pool = pool.data();
  arrays.scan = &plan;
  arrays.state = model.layout();
  const std::unique_ptr<ops::Step> step = device.begin_step(arrays);
  Result result;
  result.conv.resize(static_cast<size_t>(rows) * static_cast<size_t>(model.channels));
  result.y.resize(static_cast<size_t>(rows) * static_cast<size_t>(model.heads * model.head_dim));
  ConvArgs conv;
  conv.layer = kLayer;
  conv.x = tokens.conv.data();
  conv.ld = conv.ld_out = model.channels;
  conv.weight = model.conv_weight.data();
  conv.bias = model.bias ? model.conv_bias.data() : nullptr;
  conv.silu = model.silu;
  conv.out = result.conv.data();
  step->conv(conv);
  if (model.mamba()) {
    Mamba2Args args;
    args.layer = kLayer;
    args.heads = model.heads;
    args.head_dim = model.head_dim;
    args.groups = model.key_heads;
    args.state = model.inner_dim;
    args.x = tokens.scan.data();
    args.ld = model.scan_ld();
    args.dt = tokens.dt.data();
    args.ld_dt = model.heads;
    args.dt_bias = model.dt_bias.data();
    args.a = model.a.data();
    args.d = model.d.data();
    args.dt_min = 0.05f;
    args.dt_max = model.dt_max;
    args.y = result.y.data();
    args.ld_y = int64_t{model.heads} * model.head_dim;
    step->scan(args);
  } else {
    GatedDeltaArgs args;
    args.layer = kLayer;
    args.key_heads = model.key_heads;
    args.value_heads = model.heads;
    args.key_dim = model.inner_dim;
    args.value_dim = model.head_dim;
    args.qkv = tokens.scan.data();
    args.ld = model.scan_ld();
    args.a = tokens.dt.data();
    args.b = tokens.b.data();
    args.ld_ab = model.heads;
    args.a_scale = model.a.data();
    args.dt_bias = model.dt_bias.data();
    args.y = result.y.data();
    args.ld_y = int64_t{model.heads} * model.head_dim;
    step->scan(args);
  }
  const auto flags = step->not_finite();
  result.flags.assign(flags.begin(), flags.end());
  result.bytes = step->scan_bytes();
  return result;
}

struct Expected {
  std::vector<float> conv, y;
  std::map<int32_t, std::vector<float>> states;  // that are written
};

inline bool Pool::others_untouched(const Recurrent& model, const Expected& want) const {
  std::set<size_t> written;
  const auto n = static_cast<int64_t>(model.layout().layer_bytes() / sizeof(float));
  for (const auto& [state, values] : want.states)
    for (int64_t i = 0; i < n; ++i) written.insert(at(state, kLayer * n + i));
  for (size_t i = 0; i < floats_.size(); ++i)
    if (written.count(i) == 0 && floats_[i] != before_[i]) return false;
  return true;
}

inline double softplus(double x) { return std::log1p(std::exp(x)); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One layer's state, in float64: [width - 1][channels] inputs, then S of each head.
class Float64 {
 public:
  Float64(const Recurrent& model, const Tokens& tokens, const std::vector<float>& from)
      : model_(model), tokens_(tokens), state_(from.begin(), from.end()) {}

  std::vector<float> state() const { return {state_.begin(), state_.end()}; }

  void token(int32_t row, float* conv, float* y) {
    convolve(row, conv);
    double* s = state_.data() + int64_t{model_.width - 1} * model_.channels;
    for (int32_t head = 0; head < model_.heads; ++head) {
      model_.mamba() ? mamba2(row, head, s, y) : gated_delta(row, head, s, y);
      s += int64_t{model_.head_dim} * model_.inner_dim;
      y += model_.head_dim;
    }
  }

 private:
  void convolve(int32_t row, float* out) {
    const int64_t channels = model_.channels;
    for (int64_t c = 0; c < channels; ++c) {
      const double now = tokens_.conv[static_cast<size_t>(row * channels + c)];
      double sum = model_.bias ? model_.conv_bias[static_cast<size_t>(c)] : 0;
      for (int64_t tap = 0; tap < model_.width; ++tap) {
        const double x =
            tap + 1 < model_.width ? state_[static_cast<size_t>(tap * channels + c)] : now;
        sum += x * model_.conv_weight[static_cast<size_t>(c * model_.width + tap)];
      }
      out[c] = static_cast<float>(model_.silu ? sum * sigmoid(sum) : sum);
      for (int64_t tap = 0; tap + 1 < model_.width; ++tap) {
        state_[static_cast<size_t>(tap * channels + c)] =
            tap + 2 < model_.width ? state_[static_cast<size_t>((tap + 1) * channels + c)] : now;
      }
    }
  }
  double gate(const std::vector<float>& v, int32_t row, int32_t head) const {
    return v[static_cast<size_t>(row * model_.heads + head)];
  }
  void mamba2(int32_t row, int32_t head, double* s, float* y) const {
    const auto h = static_cast<size_t>(head);
    const int32_t p_n = model_.head_dim, n_n = model_.inner_dim;
    const float* const in = &tokens_.scan[static_cast<size_t>(row * model_.scan_ld())];
    const float* const x = in + head * p_n;
    const float* const b = in + model_.heads * p_n + head / (model_.heads / model_.key_heads) * n_n;
    const float* const c = b + model_.key_heads * n_n;
    double dt = softplus(gate(tokens_.dt, row, head) + double{model_.dt_bias[h]});
    if (model_.dt_max > 0) dt = std::clamp<double>(dt, 0.05f, model_.dt_max);
    for (int32_t p = 0; p < p_n; ++p) {
      double sum = double{model_.d[h]} * x[p];
      for (int32_t n = 0; n < n_n; ++n) {
        double& e = s[n * p_n + p];
        e = std::exp(dt * model_.a[h]) * e + dt * x[p] * b[n];
        sum += e * c[n];
      }
      y[p] = static_cast<float>(sum);
    }
  }
  void gated_delta(int32_t row, int32_t head, double* s, float* y) const {
    const auto h = static_cast<size_t>(head);
    const int32_t k_n = model_.inner_dim, v_n = model_.head_dim;
    const int32_t key_head = head / (model_.heads / model_.key_heads);
    const float* const in = &tokens_.scan[static_cast<size_t>(row * model_.scan_ld())];
    const float* const q = in + key_head * k_n;
    const float* const k = q + model_.key_heads * k_n;
    const float* const v = in + 2 * model_.key_heads * k_n + head * v_n;
    double q2 = 1e-6, k2 = 1e-6;
    for (int32_t i = 0; i < k_n; ++i) {
      q2 += double{q[i]} * q[i];
      k2 += double{k[i]} * k[i];
    }
    const double q_scale = 1 / std::sqrt(q2 * k_n), k_scale = 1 / std::sqrt(k2);
    const double decay =
        std::exp(model_.a[h] * softplus(gate(tokens_.dt, row, head) + double{model_.dt_bias[h]}));
    const double b = sigmoid(gate(tokens_.b, row, head));
    for (int32_t j = 0; j < v_n; ++j) {
      double kept = 0, sum = 0;
      for (int32_t i = 0; i < k_n; ++i) kept += k[i] * k_scale * (s[i * v_n + j] *= decay);
      const double delta = b * (v[j] - kept);
      for (int32_t i = 0; i < k_n; ++i)
        sum += q[i] * q_scale * (s[i * v_n + j] += k[i] * k_scale * delta);
      y[j] = static_cast<float>(sum);
    }
  }

  const Recurrent& model_;
  const Tokens& tokens_;
  std::vector<double> state_;
};

// All paths from their beginnings; reads the pool before anything is written.
inline Expected float64(const Recurrent& model, const ScanPlan& plan, const Tokens& tokens,
                        const Pool& pool) {
  Expected expected;
  const int64_t inner = int64_t{model.heads} * model.head_dim;
  expected.conv.resize(static_cast<size_t>(tokens.rows) * static_cast<size_t>(model.channels));
  expected.y.resize(static_cast<size_t>(tokens.rows) * static_cast<size_t>(inner));
  std::vector<Float64> ends;
  size_t write = 0;
  for (const ScanSegment& segment : plan.segments) {
    const size_t floats = model.layout().layer_bytes() / sizeof(float);
    ends.push_back(segment.parent >= 0 ? ends[static_cast<size_t>(segment.parent)]
                   : segment.from >= 0 ? Float64(model, tokens, pool.state(model, segment.from))
                                       : Float64(model, tokens, std::vector<float>(floats, 0.0f)));
    for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
      ends.back().token(row, &expected.conv[static_cast<size_t>(row * model.channels)],
                        &expected.y[static_cast<size_t>(row * inner)]);
      for (; write < plan.writes.size() && plan.writes[write].row == row; ++write)
        expected.states[plan.writes[write].state] = ends.back().state();
    }
  }
  return expected;
}

}  // namespace prefix::ops::testing
