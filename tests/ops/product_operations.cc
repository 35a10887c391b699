// Products, alone and gated, and what is done with whole rows beside them: of each device against
// float64 or the contract of op.h.
#include <algorithm>
#include <numbers>
#include <utility>

#include "ops/product_operands.h"
#include "ops/row_operations.h"

namespace prefix::ops::testing {
namespace {

struct Shape {
  int64_t m, n, k;
};

// Row r of x times row j of w: the sum, and that of all sizes.
struct Sum {
  double value, size;
};
Sum product(const std::vector<float>& x, int64_t r, const std::vector<float>& w, int64_t j,
            int64_t k) {
  Sum sum{0, 0};
  for (int64_t i = 0; i < k; ++i) {
    const double one = static_cast<double>(x[r * k + i]) * w[j * k + i];
    sum = {sum.value + one, sum.size + std::abs(one)};
  }
  return sum;
}

}  // namespace

TEST_P(RowOps, LinearMatchesFloat64) {
  for (const Shape& s :
       {Shape{1, 1, 1}, Shape{1, 5, 8}, Shape{1, 32, 32}, Shape{2, 33, 31}, Shape{3, 64, 64},
        Shape{5, 95, 33}, Shape{6, 65, 100}, Shape{7, 31, 257}, Shape{13, 130, 96},
        Shape{32, 64, 64}, Shape{33, 100, 80}, Shape{40, 96, 128}, Shape{97, 128, 65},
        Shape{40, 96, 2593}, Shape{100, 70, 5121}}) {
    SCOPED_TRACE(cat("m ", s.m, " n ", s.n, " k ", s.k));
    const std::vector<float> x = random(s.m * s.k, act_), w = random(s.n * s.k, type()),
                             bias = random(s.n);
    const Matrix matrix(*device_, FloatRows(w, s.k), s.n, s.k, device_->types().weights);
    const int64_t ld_x = device_->act_ld(s.k), ld = s.n + 3;
    const DeviceArray dx(*device_, elements(x, s.k, ld_x, act_)), dbias(*device_, bias);
    std::vector<Sum> sums;
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < s.n; ++j) sums.push_back(product(x, r, w, j, s.k));
    const auto expect_sum = [&](float got, double before, const Sum& sum, int64_t column) {
      ASSERT_NEAR(got, before + sum.value,
                  1e-6 * (std::abs(before) + sum.size) + (on_gpu() ? 2e-5 : 1e-6))
          << "column " << column;
    };
    const std::vector<float> before = random(s.m * ld);
    for (const auto& [biased, add] : {std::pair(true, false), {false, true}, {true, true}}) {
      const DeviceArray y(*device_, before);
      device_->linear(matrix.w, biased ? dbias.floats() : nullptr, {dx.data(), ld_x}, s.m,
                      y.floats(), ld, add);
      const std::vector<float> got = y.values(DType::kF32);
      for (int64_t at = 0; at < s.m * ld; ++at) {
        const int64_t r = at / ld, j = at % ld;
        if (j >= s.n) {
          ASSERT_EQ(got[at], before[at]) << "wrote past the columns";
        } else {
          expect_sum(got[at], (add ? before[at] : 0.0f) + (biased ? bias[j] : 0.0f),
                     sums[r * s.n + j], j);
        }
      }
    }
    // One panel alone, as the heads use it.
    const int64_t column = (s.n - 1) / kPanelColumns * kPanelColumns;
    const PackedWeights panel = matrix.w.panel_of(column);
    const DeviceArray narrow(*device_, static_cast<size_t>(s.m * kPanelColumns) * sizeof(float));
    device_->linear(panel, nullptr, {dx.data(), ld_x}, s.m, narrow.floats(), kPanelColumns, false);
    const std::vector<float> part = narrow.values(DType::kF32);
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < panel.n; ++j)
        expect_sum(part[r * kPanelColumns + j], 0, sums[r * s.n + column + j], column + j);
  }
}

TEST_P(RowOps, GatedMatchesFloat64) {
  using Function = std::pair<ActivationFn, double (*)(double gate, double up)>;
  const Function silu{ActivationFn::kSilu,
                      [](double g, double u) { return g / (1 + std::exp(-g)) * u; }};
  const Function gelu{ActivationFn::kGeluTanh, [](double g, double u) {
                        const double root = std::sqrt(2 / std::numbers::pi);
                        return g / 2 * (1 + std::tanh(root * (g + 0.044715 * g * g * g))) * u;
                      }};
  const Function clamped{ActivationFn::kClampedSwiglu, [](double g, double u) {
                           g = std::min(g, 7.0);
                           u = std::clamp(u, -7.0, 7.0);
                           return (u + 1) * g / (1 + std::exp(-1.702 * g));
                         }};
  for (const auto& [fn, exact] : {silu, gelu, clamped})
    for (const Shape& s : {Shape{1, 1, 3}, Shape{5, 33, 40}, Shape{40, 96, 64}, Shape{9, 70, 64},
                           Shape{9, 100, 130}, Shape{9, 580, 64}}) {
      if (fn == ActivationFn::kClampedSwiglu && on_gpu()) continue;
      SCOPED_TRACE(cat("m ", s.m, " n ", s.n, " k ", s.k));
      const std::vector<float> gate = random(s.n * s.k, type()), up = random(s.n * s.k, type()),
                               x = random(s.m * s.k, act_);
      // Beyond the limits of the clamped one, on both sides.
      const float most = fn == ActivationFn::kClampedSwiglu ? 12 : 1;
      const std::vector<float> bias_gate = random(s.n, -most, most),
                               bias_up = random(s.n, -most, most);
      const Matrix both(*device_, device_->pack_gated(device_->types().weights, s.n, s.k,
                                                      FloatRows(gate, s.k), FloatRows(up, s.k)));
      const int64_t ld = device_->act_ld(s.k), ld_out = device_->act_ld(s.n);
      const DeviceArray dx(*device_, elements(x, s.k, ld, act_)), dg(*device_, bias_gate),
          du(*device_, bias_up), out = activations(s.m, ld_out);
      device_->linear_gated(both.w, s.n, dg.floats(), du.floats(), fn, {dx.data(), ld}, s.m,
                            {out.data(), ld_out});
      const std::vector<float> got = out.values(act_);
      const double rounding = act_ == DType::kF32 ? 2e-5 : 0x1p-8;
      for (int64_t r = 0; r < s.m; ++r) {
        for (int64_t j = 0; j < s.n; ++j) {
          double g = product(x, r, gate, j, s.k).value, u = product(x, r, up, j, s.k).value;
          // A GPU rounds products to activations; |act(x)'| is at most 1.13.
          const double g_off = on_gpu() ? std::abs(g) * rounding : 0;
          const double u_off = on_gpu() ? std::abs(u) * rounding : 0;
          g += bias_gate[j];
          u += bias_up[j];
          const double want = exact(g, u);
          const double off = 1.13 * g_off * (std::abs(u) + u_off) + std::abs(exact(g, 1)) * u_off +
                             std::abs(want) * rounding;
          ASSERT_NEAR(got[r * ld_out + j], want, 1.01 * off + 2e-5) << r << ", " << j;
        }
        ASSERT_TRUE(s.n == ld_out || std::isnan(got[r * ld_out + s.n]));  // nothing behind the row
      }
    }
}

// The bias is added here or by qkv().
TEST_P(RowOps, ProjectMatchesFloat64) {
  const int64_t m = 9, n = 70, k = 64;
  const std::vector<float> w = random(n * k, type()), x = random(m * k, act_),
                           bias = random(n, 50, 60);
  const Matrix matrix(*device_, FloatRows(w, k), n, k, device_->types().weights);
  const int64_t ld = device_->act_ld(k), ld_y = device_->act_ld(n);
  const DeviceArray dx(*device_, elements(x, k, ld, act_)), dbias(*device_, bias),
      y(*device_, static_cast<size_t>(m * ld_y) * device_->projection_bytes());
  device_->project(matrix.w, dbias.floats(), {dx.data(), ld}, m, y.data(), ld_y);
  const std::vector<float> got = y.values(projected_);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < n; ++j)
      expect_close(got[r * ld_y + j], product(x, r, w, j, k).value + (on_gpu() ? 0 : bias[j]),
                   projected_, cat("row ", r, " column ", j));
}

TEST_P(RowOps, EmbedGatherConvert) {
  for (const auto& [k, ld] :
       {std::pair<int64_t, int64_t>{45, 50}, {44, 50}, {44, 52}, {560, 560}}) {
    const int64_t n = 77;
    const std::vector<float> rows = random(n * k, type());
    const Matrix table(*device_, FloatRows(rows, k), n, k, device_->types().weights);
    const std::vector<int32_t> ids = {0, 76, 31, 32, 5, 5}, wanted = {4, 0, 4};
    const std::unique_ptr<ops::Step> step = device_->begin_step({.tokens = ids});
    const DeviceArray x(*device_, static_cast<size_t>(step->rows() * ld) * sizeof(float));
    step->embed(table.w, 2.0f, x.floats(), ld);
    step->begin_heads({.rows = wanted});
    const DeviceArray gathered(*device_, wanted.size() * ld * sizeof(float));
    step->gather_rows(x.floats(), ld, k, gathered.floats(), ld);
    step->end();
    const int64_t ld_act = device_->act_ld(k);
    const DeviceArray act = activations(3, ld_act);
    device_->convert(gathered.floats(), ld, 3, k, {act.data(), ld_act});
    const auto embedded = x.values(DType::kF32), some = gathered.values(DType::kF32),
               converted = act.values(act_);
    const auto want = [&](int32_t row, int64_t j) { return 2 * rows[ids[row] * k + j]; };
    for (int32_t r = 0; r < static_cast<int32_t>(ids.size()); ++r)
      for (int64_t j = 0; j < k; ++j) ASSERT_EQ(embedded[r * ld + j], want(r, j));
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (int64_t j = 0; j < k; ++j) {
        ASSERT_EQ(some[i * ld + j], want(wanted[i], j));
        ASSERT_EQ(converted[i * ld_act + j], rounded(want(wanted[i], j), act_));
      }
      ASSERT_TRUE(k == ld || std::isnan(some[i * ld + k]));  // nothing behind the row
    }
  }
}

}  // namespace prefix::ops::testing
