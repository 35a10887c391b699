// The row-wise operations of the GPU backend against float64 or the contract of op.h: on the
// emulator everywhere, on a GPU where there is one.
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/gpu_support.h"
#include "ops/finite.h"
#include "ops/rows_reference.h"

namespace prefix::ops::testing {
namespace {

class GpuRows : public GpuTest {
 protected:
  std::vector<float> random(int64_t n, float low = -1, float high = 1) {
    return random_values(n, low, high, rng_);
  }
  float stored(float x) const { return f32() ? x : from_bf16(to_bf16(x)); }
  void expect_close(float got, double want, bool narrow, const std::string& what) const {
    const double relative = narrow && !f32() ? 1.0 / 256 : 2e-6;
    ASSERT_NEAR(got, want, relative * std::abs(want) + 4e-6) << what;
  }
  void TearDown() override {
    for (const PackedWeights& m : packed_)
      device_->release(const_cast<std::byte*>(m.data), m.bytes());
  }
  PackedWeights pack(const std::vector<float>& rows, int64_t n, int64_t k) {
    packed_.push_back(device_->pack(device_->types().weights, n, k, FloatRows(rows, k)));
    return packed_.back();
  }
  std::vector<std::byte> activations(const std::vector<float>& x, int64_t rows, int64_t k,
                                     int64_t ld) const {
    std::vector<std::byte> out(static_cast<size_t>(rows * ld) * device_->act_bytes(),
                               std::byte{0xff});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) put(out.data(), r * ld + i, type(), x[r * k + i]);
    return out;
  }
  DeviceArray activations(int64_t rows, int64_t ld) const {
    return DeviceArray(*device_, static_cast<size_t>(rows * ld) * device_->act_bytes());
  }
  // One that has cleared its pages.
  std::unique_ptr<ops::Step> step_of_rows(const std::vector<int32_t>& positions,
                                          const std::vector<KvSlot>& slots,
                                          const std::vector<int32_t>& pages, int32_t heads,
                                          const KvLayout& kv, const DeviceArray& pool) {
    auto step = device_->begin_step({.tokens = positions,  // as many
                                     .rope_rows = positions,
                                     .slots = slots,
                                     .clear = pages,
                                     .heads = heads,
                                     .kv = kv,
                                     .pool = pool.data()});
    step->clear_pages();
    return step;
  }
  // Of row r of x and row j of w.
  double product(const std::vector<float>& x, int64_t r, const std::vector<float>& w, int64_t j,
                 int64_t k) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += static_cast<double>(stored(x[r * k + i])) * stored(w[j * k + i]);
    return sum;
  }
  Rng rng_{41};
  std::vector<PackedWeights> packed_;
};
INSTANTIATE_TEST_SUITE_P(Backends, GpuRows, ::testing::ValuesIn(kBackends), backend_name);

TEST_P(GpuRows, Norms) {
  for (const auto& [n, ld] : {std::pair<int64_t, int64_t>{1, 4},
                              {7, 10},
                              {64, 67},
                              {576, 576},
                              {1041, 1044},
                              {1044, 1048}}) {
    const int64_t rows = 9, ld_out = device_->act_ld(n);
    const std::vector<float> x = random(rows * ld), weight = random(n, 0.5f, 2);
    const DeviceArray dx(*device_, x), dw(*device_, weight), in_place(*device_, x),
        added(*device_, x);
    const DeviceArray out = activations(rows, ld_out);
    device_->rms_norm(dx.floats(), ld, dw.floats(), 1e-5f, rows, n, {out.data(), ld_out});
    device_->rms_norm_f32(in_place.floats(), ld, dw.floats(), 1e-5f, rows, n, in_place.floats(), ld,
                          false);
    device_->rms_norm_f32(dx.floats(), ld, dw.floats(), 1e-5f, rows, n, added.floats(), ld, true);
    const auto a = out.values(type()), b = in_place.values(DType::kF32),
               c = added.values(DType::kF32);
    for (int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms(&x[r * ld], n, 1e-5f);
      for (int64_t i = 0; i < n; ++i) {
        const double want = x[r * ld + i] * scale * weight[i];
        expect_close(a[r * ld_out + i], want, true, cat("n ", n, " row ", r));
        expect_close(b[r * ld + i], want, false, "in place");
        expect_close(c[r * ld + i], x[r * ld + i] + want, false, "added");
      }
      EXPECT_TRUE(n == ld_out || std::isnan(a[r * ld_out + n]));  // nothing behind the row
    }
  }
}

// Without graphs everything would work, too, only slower: that they are made must be seen.
TEST_P(GpuRows, EqualStretchesAreReplayed) {
  const int64_t rows = 4, n = 64;
  const std::vector<float> x = random(rows * n), weight = random(n, 0.5f, 2);
  const PackedWeights w = pack(random(n * n), n, n);
  const int64_t ld = device_->act_ld(n);
  const DeviceArray dx(*device_, x), dw(*device_, weight), y(*device_, x);
  const DeviceArray act = activations(rows, ld);
  std::vector<std::byte> first;
  for (int step = 0; step < 5; ++step) {
    const std::unique_ptr<ops::Step> run = device_->begin_step({});
    for (int i = 0; i < 10; ++i) {
      device_->rms_norm(dx.floats(), n, dw.floats(), 1e-5f, rows, n, {act.data(), ld});
      device_->linear(w, nullptr, {act.data(), ld}, rows, y.floats(), n, false);
    }
    run->wait();
    run->end();
    if (step == 0) first = y.bytes();
    EXPECT_EQ(y.bytes(), first);
  }
  const gpu::StepGraphs::Counts counts = device_->graph_counts();
  EXPECT_EQ(counts.refused, 0) << counts.why;
  EXPECT_EQ(counts.recorded, 1);
  EXPECT_EQ(counts.replayed, 3);
}

TEST_P(GpuRows, EmbedGatherConvert) {
  for (const auto& [k, ld] :
       {std::pair<int64_t, int64_t>{45, 50}, {44, 50}, {44, 52}, {560, 560}}) {
    const int64_t n = 77;
    const std::vector<float> rows = random(n * k);
    const PackedWeights w = pack(rows, n, k);
    const std::vector<int32_t> ids = {0, 76, 31, 32, 5, 5};
    const DeviceArray x(*device_, static_cast<size_t>(gpu::padded_rows(6) * ld) * sizeof(float));
    const std::vector<int32_t> wanted = {4, 0, 4};
    const std::unique_ptr<ops::Step> step = device_->begin_step({.tokens = ids});
    step->embed(w, 2.0f, x.floats(), ld);
    step->begin_heads({.rows = wanted});
    const DeviceArray gathered(*device_, wanted.size() * ld * sizeof(float));
    step->gather_rows(x.floats(), ld, k, gathered.floats(), ld);
    step->end();
    const int64_t ld_act = device_->act_ld(k);
    const DeviceArray act = activations(3, ld_act);
    device_->convert(gathered.floats(), ld, 3, k, {act.data(), ld_act});
    const auto got = act.values(type());
    for (size_t i = 0; i < wanted.size(); ++i)
      for (int64_t j = 0; j < k; ++j)
        EXPECT_EQ(got[i * ld_act + j], stored(2 * stored(rows[ids[wanted[i]] * k + j])));
  }
}

TEST_P(GpuRows, LinearWithBiasAndAdd) {
  struct Shape {
    int64_t m, n, k;
  };
  for (const Shape& s : {Shape{1, 5, 8}, Shape{7, 33, 45}, Shape{40, 96, 128}}) {
    const std::vector<float> w = random(s.n * s.k), x = random(s.m * s.k), bias = random(s.n),
                             y = random(s.m * s.n);
    const PackedWeights matrix = pack(w, s.n, s.k);
    const int64_t ld = device_->act_ld(s.k);
    const DeviceArray dx(*device_, activations(x, s.m, s.k, ld)), dy(*device_, y),
        dbias(*device_, bias);
    device_->linear(matrix, dbias.floats(), {dx.data(), ld}, s.m, dy.floats(), s.n, true);
    const auto got = dy.values(DType::kF32);
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < s.n; ++j) {
        const double want = y[r * s.n + j] + bias[j] + product(x, r, w, j, s.k);
        ASSERT_NEAR(got[r * s.n + j], want, 2e-5 * (1 + std::abs(want)));
      }
    // One panel alone, as the heads use it.
    const int64_t column = (s.n - 1) / 32 * 32;
    const PackedWeights panel = matrix.panel_of(column);
    const DeviceArray narrow(*device_, static_cast<size_t>(s.m * 32) * sizeof(float));
    device_->linear(panel, nullptr, {dx.data(), ld}, s.m, narrow.floats(), 32, false);
    const auto part = narrow.values(DType::kF32);
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < panel.n; ++j)
        ASSERT_NEAR(part[r * 32 + j] + bias[column + j] + y[r * s.n + column + j],
                    got[r * s.n + column + j], 1e-4);
  }
}

TEST_P(GpuRows, LinearGated) {
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto gelu = [](double x) {
    const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return x / 2 * (1 + std::tanh(u));
  };
  for (const auto& [n, fn] :
       {std::pair(70, ActivationFn::kSilu), std::pair(580, ActivationFn::kSilu),
        std::pair(70, ActivationFn::kGeluTanh), std::pair(580, ActivationFn::kGeluTanh)}) {
    const int64_t m = 9, k = 64;
    const std::vector<float> g = random(n * k), u = random(n * k), x = random(m * k);
    const std::vector<float> bias_g = random(n), bias_u = random(n);
    const PackedWeights both =
        device_->pack_gated(device_->types().weights, n, k, FloatRows(g, k), FloatRows(u, k));
    packed_.push_back(both);
    const int64_t ld = device_->act_ld(k), ld_out = device_->act_ld(n);
    const DeviceArray dx(*device_, activations(x, m, k, ld)), dg(*device_, bias_g),
        du(*device_, bias_u), out = activations(m, ld_out);
    device_->linear_gated(both, n, dg.floats(), du.floats(), fn, {dx.data(), ld}, m,
                          {out.data(), ld_out});
    const auto got = out.values(type());
    for (int64_t r = 0; r < m; ++r)
      for (int64_t j = 0; j < n; ++j) {
        double gate = product(x, r, g, j, k), up = product(x, r, u, j, k);
        // Products and result are rounded to activations; |act(x)'| is at most 1.13.
        const double rounding = f32() ? 1e-5 : 0x1p-8;
        const double gate_off = std::abs(gate) * rounding, up_off = std::abs(up) * rounding;
        gate += bias_g[j];
        up += bias_u[j];
        const double act = fn == ActivationFn::kSilu ? silu(gate) : gelu(gate), want = act * up;
        const double off = 1.13 * gate_off * (std::abs(up) + up_off) + std::abs(act) * up_off +
                           std::abs(want) * rounding;
        ASSERT_NEAR(got[r * ld_out + j], want, 1.01 * off + 1e-5);
      }
  }
}

// The projection of queries, keys and values is as wide as activations, and without its bias.
TEST_P(GpuRows, Projections) {
  const int64_t m = 9, n = 70, k = 64;
  const std::vector<float> w = random(n * k), x = random(m * k), bias = random(n, 50, 60);
  const PackedWeights matrix = pack(w, n, k);
  EXPECT_EQ(device_->projection_bytes(), device_->act_bytes());
  const int64_t ld = device_->act_ld(k), ld_y = device_->act_ld(n);
  const DeviceArray dx(*device_, activations(x, m, k, ld)), dbias(*device_, bias),
      y(*device_, static_cast<size_t>(m * ld_y) * device_->projection_bytes());
  device_->project(matrix, dbias.floats(), {dx.data(), ld}, m, y.data(), ld_y);
  const auto got = y.values(type());
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < n; ++j)
      expect_close(got[r * ld_y + j], product(x, r, w, j, k), true, cat("row ", r, " column ", j));
}

struct QkvCase {
  int32_t heads, kv_heads, head_dim, rotary_dim;
  int norm;  // 0 none, 1 per head, 2 whole width
  bool bias = false;
  bool odd = false;  // rows begin where pairs of elements are not aligned
};

TEST_P(GpuRows, QkvNormsRotatesAndWritesPages) {
  for (const QkvCase& c :
       {QkvCase{4, 2, 64, 64, 0}, QkvCase{4, 2, 128, 128, 1}, QkvCase{6, 2, 80, 80, 2},
        QkvCase{3, 3, 80, 40, 1}, QkvCase{2, 2, 48, 30, 2}, QkvCase{5, 1, 64, 0, 1},
        QkvCase{2, 1, 64, 64, 1, true}, QkvCase{3, 1, 64, 64, 2}, QkvCase{4, 2, 128, 128, 2, true},
        QkvCase{3, 2, 128, 0, 1}, QkvCase{2, 1, 256, 256, 1}, QkvCase{2, 2, 256, 256, 0, true},
        QkvCase{2, 1, 128, 64, 1, true}, QkvCase{4, 2, 128, 128, 1, true, true},
        QkvCase{4, 2, 64, 64, 2, true, true}, QkvCase{2, 1, 80, 80, 0, true}}) {
    SCOPED_TRACE(cat("heads ", c.heads, "/", c.kv_heads, " head_dim ", c.head_dim, " rotary ",
                     c.rotary_dim, " norm ", c.norm, " bias ", c.bias, " odd ", c.odd));
    const int64_t rows = 13, positions_n = 100, d = c.head_dim, half = c.rotary_dim / 2;
    const int64_t width = (c.heads + 2 * c.kv_heads) * d, ld = width + (c.odd ? 5 : 6);
    const int64_t padded = gpu::padded_rows(rows);  // as many as the step works on
    std::vector<float> x = random(padded * ld, -3, 3);
    const DeviceArray dx(*device_, activations(x, padded, ld, ld));
    const std::vector<float> bias = random(width, -2, 2);
    for (int64_t i = 0; i < rows * ld; ++i)
      x[i] = stored(x[i]) + (c.bias && i % ld < width ? bias[i % ld] : 0);
    const std::vector<float> q_norm = random(c.norm == 2 ? c.heads * d : d, 0.5f, 2);
    const std::vector<float> k_norm = random(c.norm == 2 ? c.kv_heads * d : d, 0.5f, 2);
    std::vector<float> cos, sin;  // for all positions
    for (int64_t p = 0; p < positions_n; ++p)
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * std::pow(1e4, -static_cast<double>(i) / half);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    const KvLayout kv{kv_of(type()), 2, c.kv_heads, c.head_dim};
    std::vector<int32_t> positions;
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(pick(rng_, 0, positions_n - 1)));
      slots.push_back({r == 4 ? -1 : r % 4, r * 2 % kPageTokens + r / 8});
    }
    const DeviceArray pool(*device_, 4 * kv.page_bytes());
    const std::vector<int32_t> pages = {0, 1, 2, 3};
    const std::unique_ptr<ops::Step> step =
        step_of_rows(positions, slots, pages, c.heads, kv, pool);
    const DeviceArray dbias(*device_, bias), dq(*device_, q_norm), dk(*device_, k_norm);
    const DeviceArray dcos(*device_, cos), dsin(*device_, sin);
    const int64_t ldq = device_->act_ld(c.heads * d);
    const DeviceArray q = activations(padded, ldq);
    step->qkv({.layer = 1,
               .qkv = dx.data(),
               .ld = ld,
               .bias = c.bias ? dbias.floats() : nullptr,
               .q_norm = c.norm ? dq.floats() : nullptr,
               .k_norm = c.norm ? dk.floats() : nullptr,
               .norm_whole_width = c.norm == 2,
               .norm_eps = 1e-6f,
               .rotary_dim = c.rotary_dim,
               .cos = dcos.floats(),
               .sin = dsin.floats(),
               .q = {q.data(), ldq}});
    step->end();
    // The heads of a row's part that begins at column `first`.
    const auto want = [&](int64_t row, int64_t first, int64_t heads, const float* weight,
                          bool rotated) {
      const int64_t turn = positions[row] * half;
      return HeadVector{&x[row * ld + first],
                        heads,
                        d,
                        c.norm == 0 ? nullptr : weight,
                        c.norm == 2,
                        rotated ? cos.data() + turn : nullptr,
                        sin.data() + turn,
                        half};
    };
    const auto got_q = q.values(type());
    std::vector<std::byte> left = pool.bytes();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const auto v = want(r, 0, c.heads, q_norm.data(), true).of(h);
        for (int64_t i = 0; i < d; ++i)
          expect_close(got_q[r * ldq + h * d + i], v[i], true, cat("q row ", r));
      }
      if (slots[r].page < 0) continue;
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        const auto k = want(r, c.heads * d, c.kv_heads, k_norm.data(), true).of(h);
        const auto v = want(r, (c.heads + c.kv_heads) * d, c.kv_heads, nullptr, false).of(h);
        std::byte* const key = left.data() + kv.key_offset(slots[r].page, 1, h);
        std::byte* const value = left.data() + kv.value_offset(slots[r].page, 1, h);
        for (int64_t i = 0; i < d; ++i) {
          const int64_t at = gpu_index(kv, slots[r].slot, i);
          expect_close(get(key, at, type()), k[i], true, cat("k row ", r));
          expect_close(get(value, at, type()), v[i], true, cat("v row ", r));
          put(key, at, type(), 0);  // what is left must be untouched
          put(value, at, type(), 0);
        }
      }
    }
    EXPECT_EQ(left, std::vector<std::byte>(left.size()));
  }
}

// As on the CPU: what is not finite, also by rounding, is told and stored as 0.
TEST_P(GpuRows, QkvStoresFiniteKeysAndValuesOnlyAndTellsOfOthers) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const int32_t head_dim : {40, 64}) {  // element by element, in pairs
    const KvLayout kv{kv_of(type()), 1, 2, head_dim};
    const int64_t rows = 9, d = head_dim, width = 6 * d;
    const int64_t padded = gpu::padded_rows(rows);  // as many as the step works on
    std::vector<float> x = random(padded * width, -3, 3);
    struct Bad {
      int64_t row, column;
      float value;
    };
    const Bad bad[] = {{1, 2 * d, NAN},       {2, 4 * d - 1, INFINITY},
                       {3, 4 * d + 17, -NAN}, {4, 6 * d - 1, -INFINITY},
                       {5, 3 * d, kMax},      {6, 3, NAN},
                       {7, 5 * d, NAN}};
    for (const Bad& b : bad) x[b.row * width + b.column] = b.value;
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < rows; ++r) slots.push_back({r == 7 ? -1 : 0, r});
    const std::vector<int32_t> positions(rows, 0), pages = {0};
    const DeviceArray pool(*device_, kv.page_bytes()),
        dx(*device_, activations(x, padded, width, width));
    const int64_t ldq = device_->act_ld(2 * d);
    const DeviceArray q = activations(padded, ldq);
    const std::unique_ptr<ops::Step> step = step_of_rows(positions, slots, pages, 2, kv, pool);
    step->qkv({.qkv = dx.data(), .ld = width, .q = {q.data(), ldq}});
    const auto flags = step->not_finite();
    step->end();
    const std::vector<bool> got(flags.begin(), flags.end());
    std::vector<bool> told(rows);
    told[1] = told[2] = told[3] = told[4] = true;
    told[5] = type() == DType::kBf16;
    EXPECT_EQ(got, told);
    const std::vector<std::byte> page = pool.bytes();
    EXPECT_TRUE(all_finite(page.data(), page.size(), kv.type));
    for (int32_t r = 0; r < rows; ++r) {
      if (slots[r].page < 0) continue;
      for (int64_t v = 0; v < 4; ++v) {
        const std::byte* const block =
            page.data() + (v < 2 ? kv.key_offset(0, 0, v) : kv.value_offset(0, 0, v - 2));
        for (int64_t i = 0; i < d; ++i) {
          const float want = x[r * width + (2 + v) * d + i];
          const bool spoiled = std::any_of(std::begin(bad), std::end(bad), [&](const Bad& b) {
            return b.row == r && b.column == (2 + v) * d + i && told[r];
          });
          ASSERT_EQ(get(block, gpu_index(kv, r, i), type()), spoiled ? 0 : stored(want));
        }
      }
    }
  }
}

// Every element of a block has a place of its own, the one that the drawing of Pages says; rows of
// a strip follow one another, so that the first tokens of a page are the first bytes of its strips.
TEST(GpuPages, ElementsLieAsDrawn) {
  for (const DType type : {DType::kBf16, DType::kF32}) {
    for (int32_t d = 32; d <= 288; d += 32) {
      const KvLayout kv{kv_of(type), 1, 1, d};
      std::vector<int> seen(static_cast<size_t>(d * kPageTokens));
      for (int32_t token = 0; token < kPageTokens; ++token)
        for (int32_t column = 0; column < d; ++column) {
          const int at = gpu::page_at(token, column, d, static_cast<gpu::Element>(type));
          ASSERT_EQ(at, gpu_index(kv, token, column));
          ASSERT_EQ(seen.at(at)++, 0);
          if (type == DType::kF32) continue;
          const int begin = column / 64 * 64 * kPageTokens;
          const int width = std::min(64, d - column / 64 * 64);
          ASSERT_EQ((at - begin) / width, token);
        }
    }
  }
}

TEST_P(GpuRows, CopyPagesInOrder) {
  const KvLayout kv{kv_of(type()), 2, 2, 80};
  constexpr int32_t kPages = 30;
  for (const int32_t tokens : {0, 1, 13, 32}) {
    std::vector<std::byte> content(kPages * kv.page_bytes());
    for (std::byte& b : content) b = static_cast<std::byte>(rng_());
    const DeviceArray pool(*device_, content);
    // The second reads what the first wrote; the third overwrites what the first read.
    const std::vector<PageCopy> copies = {{3, 7, tokens}, {7, 20, tokens}, {9, 3, tokens}};
    const auto step = device_->begin_step({.copies = copies, .kv = kv, .pool = pool.data()});
    step->copy_pages(1);
    step->end();
    for (const PageCopy& copy : copies)
      for (int32_t head = 0; head < 2; ++head)
        for (const size_t block : {size_t{0}, kv.block_bytes()}) {
          const std::byte* const from = content.data() + kv.key_offset(copy.from, 1, head) + block;
          std::byte* const to = content.data() + kv.key_offset(copy.to, 1, head) + block;
          for (int32_t slot = 0; slot < tokens; ++slot)
            for (int64_t i = 0; i < kv.d_padded(); ++i) {
              const auto at = static_cast<size_t>(gpu_index(kv, slot, i)) * dtype_bytes(type());
              std::memcpy(to + at, from + at, dtype_bytes(type()));
            }
        }
    ASSERT_EQ(pool.bytes(), content) << "tokens " << tokens;
  }
}

TEST_P(GpuRows, ClearPagesClearsThoseOnly) {
  const KvLayout kv{kv_of(type()), 3, 1, 64};
  const DeviceArray pool(*device_, 6 * kv.page_bytes());
  const std::vector<int32_t> pages = {4, 1};
  const auto step = device_->begin_step({.clear = pages, .kv = kv, .pool = pool.data()});
  step->clear_pages();
  step->end();
  const std::vector<std::byte> got = pool.bytes();
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t page = i / kv.page_bytes();
    ASSERT_EQ(got[i], page == 1 || page == 4 ? std::byte{0} : std::byte{0xff});
  }
}

}  // namespace
}  // namespace prefix::ops::testing
