// Routed experts: the choice of each row, and the products of all experts at once.
#include "ops/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/elementary.h"
#include "base/status.h"
#include "ops/cpu/gemm.h"
#include "ops/op_cpu.h"

namespace prefix::ops {
namespace {

// A NaN is chosen last, so that a row with one still has its experts; its results are NaN all the
// same.
float order(float score) {
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

// The `count` highest of the scores, in ascending order; of equal ones the first.
void choose(const float* scores, int64_t experts, int64_t count, int32_t* chosen) {
  // Sorted from the best to the worst.
  const auto better = [&](int32_t a, int32_t b) {
    const float left = order(scores[a]), right = order(scores[b]);
    return left > right || (left == right && a < b);
  };
  int64_t held = 0;
  for (int32_t e = 0; e < experts; ++e) {
    if (held == count && !better(e, chosen[held - 1])) continue;
    int64_t at = held < count ? held++ : held - 1;
    for (; at > 0 && better(e, chosen[at - 1]); --at) chosen[at] = chosen[at - 1];
    chosen[at] = e;
  }
  std::sort(chosen, chosen + count);
}

// Softmax of the scores: over the chosen ones, or over all of them.
void weigh(const float* scores, int64_t experts, bool normalized, const int32_t* chosen,
           int64_t count, float* weights) {
  double highest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t e = 0; e < experts; ++e) highest = std::max(highest, double{scores[e]});
  const auto power = [&](int64_t e) { return portable_exp(scores[e] - highest); };
  if (normalized) {
    for (int64_t i = 0; i < count; ++i) sum += power(chosen[i]);
  } else {
    for (int64_t e = 0; e < experts; ++e) sum += power(e);
  }
  for (int64_t i = 0; i < count; ++i) weights[i] = static_cast<float>(power(chosen[i]) / sum);
}

// `slots` has the experts of each row where the slots of it belong: numbers them.
void number_slots(int64_t rows, int64_t experts, ExpertSlots& slots) {
  slots.begin.assign(static_cast<size_t>(experts + 1), 0);
  for (const int32_t e : slots.of_rows) ++slots.begin[static_cast<size_t>(e) + 1];
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) slots.begin[e + 1] += slots.begin[e];
  slots.row.resize(slots.of_rows.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < slots.per_row; ++i) {
      int32_t& entry = slots.of_rows[static_cast<size_t>(row * slots.per_row + i)];
      entry = slots.begin[static_cast<size_t>(entry)]++;
      slots.row[static_cast<size_t>(entry)] = static_cast<int32_t>(row);
    }
  }
  // Each has moved on to the beginning of the next one.
  for (size_t e = static_cast<size_t>(experts); e > 0; --e) slots.begin[e] = slots.begin[e - 1];
  slots.begin[0] = 0;
}

}  // namespace

void CpuDevice::route(const RouteArgs& args, int64_t rows, ExpertSlots& slots) {
  PREFIX_CHECK(args.per_row >= 1 && args.per_row <= args.experts);
  slots.per_row = args.per_row;
  slots.of_rows.resize(static_cast<size_t>(rows * args.per_row));
  slots.weights.resize(slots.of_rows.size());
  threads_->run(rows, [&](int64_t row, int) {
    const float* const scores = args.scores + row * args.ld;
    int32_t* const chosen = slots.of_rows.data() + row * args.per_row;
    choose(scores, args.experts, args.per_row, chosen);
    weigh(scores, args.experts, args.normalized, chosen, args.per_row,
          slots.weights.data() + row * args.per_row);
  });
  number_slots(rows, args.experts, slots);
}

void CpuDevice::experts(const ExpertsArgs& args, const ExpertSlots& slots) {
  PREFIX_CHECK(slots.experts() == static_cast<int64_t>(args.experts.size()));
  const size_t row_bytes = static_cast<size_t>(args.hidden) * act_bytes();
  const auto at = [&](ActivationBuffer x, int64_t row) { return from_row(x, row, act_bytes()); };
  threads_->run(slots.count(), [&](int64_t slot, int) {
    std::memcpy(at(args.gathered, slot).data, at(args.x, slots.row[static_cast<size_t>(slot)]).data,
                row_bytes);
  });

  std::vector<GemmProduct> products;
  const auto multiply = [&](const auto& product_of) {
    products.clear();
    for (size_t e = 0; e < args.experts.size(); ++e) {
      const int64_t first = slots.begin[e], rows = slots.begin[e + 1] - first;
      if (rows > 0) products.push_back(product_of(args.experts[e], first, rows));
    }
    gemm(context_, products);
  };
  multiply([&](const ExpertWeights& expert, int64_t first, int64_t rows) {
    GemmProduct product{&expert.gate_up, at(args.gathered, first), rows, {}};
    product.output.gated_out = at(args.inner, first).data;
    product.output.ldg = args.inner.ld;
    product.output.bias_gate = expert.gate_bias;
    product.output.bias_up = expert.up_bias;
    product.output.fn = args.fn;
    product.output.columns = args.intermediate;
    return product;
  });
  multiply([&](const ExpertWeights& expert, int64_t first, int64_t rows) {
    GemmProduct product{&expert.down, at(args.inner, first), rows, {}};
    product.output.y = args.results + first * args.ld_results;
    product.output.ldy = args.ld_results;
    product.output.bias = expert.down_bias;
    product.output.columns = expert.down.n;
    return product;
  });

  const auto rows = static_cast<int64_t>(slots.of_rows.size()) / slots.per_row;
  const auto add_scaled = context_.kernels->rows.add_scaled;
  threads_->run(rows, [&](int64_t row, int) {
    for (int64_t i = row * slots.per_row; i < (row + 1) * slots.per_row; ++i) {
      const int64_t slot = slots.of_rows[static_cast<size_t>(i)];
      add_scaled(args.results + slot * args.ld_results, slots.weights[static_cast<size_t>(i)],
                 args.hidden, args.out + row * args.ld_out);
    }
  });
}

}  // namespace prefix::ops
