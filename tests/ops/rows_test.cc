// Norms, the q/k/v split with rotary embedding and page writes, page copies: every CPU level of
// this machine against float64, and rows alone against rows together.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

#include "base/status.h"
#include "ops/finite.h"
#include "ops/rows_reference.h"
#include "support/dtype.h"

namespace prefix::ops::testing {
namespace {

using Param = std::tuple<std::string, DType>;

class RowOps : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    const auto& [isa, type] = GetParam();
    for (const IsaLevel& level : cpu_isa_levels())
      if (level.name == isa && !level.available) GTEST_SKIP() << isa << ": " << level.reason;
    device_ = make_cpu_device({types_of(type), isa, std::make_shared<Threads>(2)});
    act_ = act_type(*device_);
  }
  DType type() const { return std::get<1>(GetParam()); }
  std::vector<float> random(int64_t n, float low = -1, float high = 1) {
    return random_values(n, low, high, rng_);
  }
  // Equal up to the rounding of `stored` elements.
  static void expect_close(float got, double want, DType stored, const std::string& what) {
    const double relative = stored == DType::kBf16 ? 1.0 / 256 : 2e-6;
    ASSERT_NEAR(got, want, relative * std::abs(want) + 2e-6) << what;
  }

  Rng rng_{21};
  std::unique_ptr<Device> device_;
  DType act_ = DType::kF32;
};

std::string level_name(const ::testing::TestParamInfo<Param>& param) {
  const auto& [isa, type] = param.param;
  return isa + (type == DType::kF32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Levels, RowOps,
                         ::testing::Combine(::testing::Values("scalar", "avx2", "avx512",
                                                              "avx512_bf16", "amx"),
                                            ::testing::Values(DType::kBf16, DType::kF32)),
                         level_name);

TEST_P(RowOps, RmsNorm) {
  for (const int64_t n : {1, 7, 64, 100, 576, 1024, 1041}) {
    const int64_t rows = 19;
    const int64_t ld = n + 3;
    const std::vector<float> x = random(rows * ld), weight = random(n, 0.5f, 2);
    const int64_t ld_out = device_->act_ld(n);
    Buffer out(*device_, static_cast<size_t>(rows * ld_out) * device_->act_bytes());
    Buffer alone(*device_, static_cast<size_t>(ld_out) * device_->act_bytes());
    device_->rms_norm(x.data(), ld, weight.data(), 1e-5f, rows, n, {out.data(), ld_out});
    for (int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms(&x[r * ld], n, 1e-5f);
      for (int64_t i = 0; i < n; ++i) {
        expect_close(get(out.data(), r * ld_out + i, act_), x[r * ld + i] * scale * weight[i], act_,
                     cat("n ", n, " row ", r, " column ", i));
      }
      device_->rms_norm(&x[r * ld], ld, weight.data(), 1e-5f, 1, n, {alone.data(), ld_out});
      const size_t bytes = static_cast<size_t>(n) * device_->act_bytes();
      EXPECT_EQ(0, std::memcmp(alone.data(),
                               out.data() + static_cast<size_t>(r * ld_out) * device_->act_bytes(),
                               bytes));
    }
  }
}

TEST_P(RowOps, RmsNormF32InPlaceAndAdded) {
  for (const int64_t n : {5, 96, 200}) {
    const int64_t rows = 11;
    const std::vector<float> x = random(rows * n), weight = random(n), before = random(rows * n);
    std::vector<float> in_place = x, added = before;
    device_->rms_norm_f32(in_place.data(), n, weight.data(), 1e-6f, rows, n, in_place.data(), n,
                          false);
    device_->rms_norm_f32(x.data(), n, weight.data(), 1e-6f, rows, n, added.data(), n, true);
    for (int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms(&x[r * n], n, 1e-6f);
      for (int64_t i = 0; i < n; ++i) {
        const double want = x[r * n + i] * scale * weight[i];
        expect_close(in_place[r * n + i], want, DType::kF32, cat("n ", n, " row ", r));
        expect_close(added[r * n + i], before[r * n + i] + want, DType::kF32, cat("added ", n));
      }
    }
  }
}

TEST_P(RowOps, GatedNorm) {
  const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
  for (const int64_t n : {1, 33, 64, 128, 1000}) {
    for (const bool first : {false, true}) {
      SCOPED_TRACE(cat("n ", n, first ? ", gate first" : ""));
      const int64_t rows = 11, heads = 3, width = heads * n;
      const std::vector<float> y = random(rows * (width + 1)),
                               z = random(rows * (width + 2), -4, 4),
                               weight = random(width, 0.5f, 2);
      Device::GatedNormArgs args;
      args.y = y.data();
      args.ld_y = width + 1;
      args.z = z.data();
      args.ld_z = width + 2;
      args.weight = weight.data();
      args.shared_weight = !first;
      args.gate_first = first;
      args.eps = 1e-3f;
      args.heads = heads;
      args.n = n;
      const int64_t ld = device_->act_ld(width);
      Buffer out(*device_, static_cast<size_t>(rows * ld) * device_->act_bytes());
      device_->gated_norm(args, rows, {out.data(), ld});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          std::vector<double> x(static_cast<size_t>(n));
          double squares = 0;
          for (int64_t i = 0; i < n; ++i) {
            x[i] = y[r * (width + 1) + h * n + i];
            if (first) x[i] *= silu(z[r * (width + 2) + h * n + i]);
            squares += x[i] * x[i];
          }
          const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-3f);
          for (int64_t i = 0; i < n; ++i) {
            double want = x[i] * scale * weight[first ? h * n + i : i];
            if (!first) want *= silu(z[r * (width + 2) + h * n + i]);
            expect_close(get(out.data(), r * ld + h * n + i, act_), want, act_,
                         cat("row ", r, " head ", h, " column ", i));
          }
        }
      }
    }
  }
}

TEST_P(RowOps, MultiplySigmoid) {
  for (const int64_t n : {1, 15, 64, 203}) {
    const int64_t rows = 9, ld = device_->act_ld(n);
    const std::vector<float> x = random(rows * n), gate = random(rows * (n + 1), -90, 90);
    Buffer out(*device_, static_cast<size_t>(rows * ld) * device_->act_bytes());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; ++i) put(out.data(), r * ld + i, act_, x[r * n + i]);
    device_->multiply_sigmoid(gate.data(), n + 1, rows, n, {out.data(), ld});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        const double rounded =
            act_ == DType::kBf16 ? from_bf16(to_bf16(x[r * n + i])) : x[r * n + i];
        expect_close(get(out.data(), r * ld + i, act_),
                     rounded / (1 + std::exp(-double{gate[r * (n + 1) + i]})), act_,
                     cat("n ", n, " row ", r, " column ", i));
      }
    }
  }
}

TEST_P(RowOps, Multiply) {
  for (const int64_t n : {1, 15, 64, 203}) {
    const int64_t rows = 9;
    const std::vector<float> x = random(rows * (n + 1)), y = random(rows * (n + 2));
    std::vector<float> out = y;
    device_->multiply(x.data(), n + 1, rows, n, out.data(), n + 2);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n + 2; ++i)
        EXPECT_EQ(out[r * (n + 2) + i],
                  i < n ? y[r * (n + 2) + i] * x[r * (n + 1) + i] : y[r * (n + 2) + i])
            << cat("n ", n, " row ", r, " column ", i);
  }
}

TEST_P(RowOps, SquaredRelu) {
  for (const int64_t n : {1, 15, 64, 203}) {
    const int64_t rows = 9, ld = device_->act_ld(n);
    std::vector<float> x = random(rows * (n + 1), -3, 3);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    Buffer out(*device_, static_cast<size_t>(rows * ld) * device_->act_bytes());
    device_->squared_relu(x.data(), n + 1, rows, n, {out.data(), ld});
    EXPECT_TRUE(std::isnan(get(out.data(), 0, act_)));
    for (int64_t at = 1; at < rows * n; ++at) {
      const int64_t r = at / n, i = at % n;
      const double positive = std::max(0.0, double{x[r * (n + 1) + i]});
      expect_close(get(out.data(), r * ld + i, act_), positive * positive, act_,
                   cat("n ", n, " row ", r, " column ", i));
    }
  }
}

struct QkvCase {
  int32_t heads, kv_heads, head_dim, rotary_dim;
  int norm;  // 0 none, 1 per head, 2 whole width
};

TEST_P(RowOps, QkvNormsRotatesAndWritesPages) {
  const QkvCase cases[] = {{4, 2, 64, 64, 0}, {4, 2, 128, 128, 1}, {6, 2, 80, 80, 2},
                           {3, 3, 80, 40, 1}, {2, 1, 96, 72, 0},   {5, 1, 64, 0, 1},
                           {2, 2, 48, 30, 2}, {3, 1, 33, 32, 1}};
  for (const QkvCase& c : cases) {
    SCOPED_TRACE(cat("heads ", c.heads, "/", c.kv_heads, " head_dim ", c.head_dim, " rotary ",
                     c.rotary_dim, " norm ", c.norm));
    const int64_t rows = 13, layers = 2, pages = 4, positions_n = 100, d = c.head_dim;
    const int32_t layer = 1;
    const int64_t width = (c.heads + 2 * c.kv_heads) * d, ld = width + 5;
    const std::vector<float> x = random(rows * ld, -3, 3);
    const std::vector<float> q_norm = random(c.norm == 2 ? c.heads * d : d, 0.5f, 2);
    const std::vector<float> k_norm = random(c.norm == 2 ? c.kv_heads * d : d, 0.5f, 2);
    const int64_t half = c.rotary_dim / 2;
    std::vector<float> cos(positions_n * half), sin(positions_n * half);
    for (int64_t p = 0; p < positions_n; ++p) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * std::pow(1e4, -static_cast<double>(i) / half);
        cos[p * half + i] = static_cast<float>(std::cos(angle));
        sin[p * half + i] = static_cast<float>(std::sin(angle));
      }
    }
    const KvLayout kv{kv_of(type()), static_cast<int32_t>(layers), c.kv_heads, c.head_dim};
    std::vector<int32_t> positions;
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(pick(rng_, 0, positions_n - 1)));
      // Row 4 is recomputed only: its key and value go nowhere. All slots differ.
      slots.push_back({r == 4 ? -1 : r % 4, r * 2 % kPageTokens + r / 8});
    }
    Buffer pool(*device_, static_cast<size_t>(pages) * kv.page_bytes());
    const std::vector<int32_t> all_pages = {0, 1, 2, 3};
    StepArrays arrays;
    arrays.rope_rows = positions;
    arrays.slots = slots;
    arrays.clear = all_pages;
    arrays.heads = c.heads;
    arrays.kv = kv;
    arrays.pool = pool.data();
    const std::unique_ptr<ops::Step> step = device_->begin_step(arrays);
    step->clear_pages();
    std::vector<std::byte> expected_rest(static_cast<size_t>(pages) * kv.page_bytes());

    QkvArgs args;
    args.qkv = x.data();
    args.ld = ld;
    args.layer = layer;
    args.q_norm = c.norm == 0 ? nullptr : q_norm.data();
    args.k_norm = c.norm == 0 ? nullptr : k_norm.data();
    args.norm_whole_width = c.norm == 2;
    args.norm_eps = 1e-6f;
    args.rotary_dim = c.rotary_dim;
    args.cos = cos.data();
    args.sin = sin.data();
    const int64_t ldq = device_->act_ld(c.heads * d);
    Buffer q(*device_, static_cast<size_t>(rows * ldq) * device_->act_bytes());
    args.q = {q.data(), ldq};
    step->qkv(args);

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
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const std::vector<double> v = want(r, 0, c.heads, q_norm.data(), true).of(h);
        for (int64_t i = 0; i < d; ++i)
          expect_close(get(q.data(), r * ldq + h * d + i, act_), v[i], act_, cat("q row ", r));
      }
      if (slots[r].page < 0) continue;
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        const std::vector<double> k = want(r, c.heads * d, c.kv_heads, k_norm.data(), true).of(h);
        const std::vector<double> v =
            want(r, (c.heads + c.kv_heads) * d, c.kv_heads, nullptr, false).of(h);
        const size_t key_at = kv.key_offset(slots[r].page, layer, h);
        const size_t value_at = kv.value_offset(slots[r].page, layer, h);
        for (int64_t i = 0; i < d; ++i) {
          const int64_t key_i = key_index(type(), slots[r].slot, i);
          const int64_t value_i = value_index(type(), slots[r].slot, i);
          expect_close(get(pool.data() + key_at, key_i, type()), k[i], type(), cat("k row ", r));
          expect_close(get(pool.data() + value_at, value_i, type()), v[i], type(),
                       cat("v row ", r));
          // What is left after taking these out must be untouched.
          put(pool.data() + key_at, key_i, type(), 0);
          put(pool.data() + value_at, value_i, type(), 0);
        }
      }
    }
    EXPECT_EQ(0, std::memcmp(pool.data(), expected_rest.data(), expected_rest.size()));
  }
}

// What is not finite, also by rounding, is told and stored as 0; its neighbours are what they are.
TEST_P(RowOps, QkvStoresFiniteKeysAndValuesOnlyAndTellsOfOthers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const KvLayout kv{kv_of(type()), 1, 2, 40};
  const int64_t rows = 11, d = 40, width = 6 * d;
  std::vector<float> x = random(rows * width, -3, 3);
  const std::vector<float> clean = x;
  const auto set = [&](int64_t row, int64_t column, float value) {
    x[row * width + column] = value;
  };
  set(1, 2 * d, kNan);           // the first element of a key
  set(2, 4 * d - 1, kInfinity);  // the last one
  set(3, 4 * d + 17, -kNan);     // of a value
  set(4, 6 * d - 1, -kInfinity);
  set(5, 3 * d, std::numeric_limits<float>::max());  // a bf16 cannot hold it
  set(6, 3, kNan);                                   // a query is the row's own matter
  set(7, 3 * d, 3e38f);
  set(8, 5 * d, kNan);  // goes nowhere
  std::vector<int32_t> positions(rows, 0);
  std::vector<KvSlot> slots;
  for (int32_t r = 0; r < rows; ++r) slots.push_back({r == 8 ? -1 : 0, r});
  Buffer pool(*device_, kv.page_bytes()), want(*device_, kv.page_bytes());
  const std::vector<int32_t> pages = {0};
  QkvArgs args;
  args.ld = width;
  const int64_t ldq = device_->act_ld(2 * d);
  Buffer q(*device_, static_cast<size_t>(rows * ldq) * device_->act_bytes());
  const auto run = [&](const std::vector<float>& from, Buffer& to) {
    StepArrays arrays;
    arrays.rope_rows = positions;
    arrays.slots = slots;
    arrays.clear = pages;
    arrays.heads = 2;
    arrays.kv = kv;
    arrays.pool = to.data();
    const std::unique_ptr<ops::Step> step = device_->begin_step(arrays);
    step->clear_pages();
    args.qkv = from.data();
    args.q = {q.data(), ldq};
    step->qkv(args);
    const auto flags = step->not_finite();
    return std::vector<bool>(flags.begin(), flags.end());
  };
  EXPECT_EQ(run(clean, want), std::vector<bool>(rows));
  std::vector<bool> told(rows);
  told[1] = told[2] = told[3] = told[4] = true;
  told[5] = type() == DType::kBf16;
  EXPECT_EQ(run(x, pool), told);
  EXPECT_TRUE(all_finite(pool.data(), kv.page_bytes(), kv.type));
  const auto put_both = [&](int32_t slot, int64_t column, float value) {  // of k and v, in `want`
    const int64_t vector = column / d - 2, i = column % d;
    std::byte* const block = want.data() + (vector < 2 ? kv.key_offset(0, 0, vector)
                                                       : kv.value_offset(0, 0, vector - 2));
    put(block, vector < 2 ? key_index(type(), slot, i) : value_index(type(), slot, i), type(),
        value);
  };
  put_both(1, 2 * d, 0);
  put_both(2, 4 * d - 1, 0);
  put_both(3, 4 * d + 17, 0);
  put_both(4, 6 * d - 1, 0);
  put_both(5, 3 * d, told[5] ? 0 : std::numeric_limits<float>::max());
  put_both(7, 3 * d, 3e38f);
  EXPECT_EQ(0, std::memcmp(pool.data(), want.data(), kv.page_bytes()));
}

// Rows that are split together share slots of a page; each gets the bits that it gets alone.
TEST_P(RowOps, QkvOfManyRowsGivesTheBitsOfEachAlone) {
  for (const bool whole : {false, true}) {
    const KvLayout kv{kv_of(type()), 1, 2, 72};
    const int32_t heads = 3, pages = 8;
    const int64_t rows = 150, d = 72, width = (heads + 2 * 2) * d;
    std::vector<float> x = random(rows * width, -3, 3);
    const std::vector<float> norm = random(heads * d, 0.5f, 2), cos = random(rows * d / 2),
                             sin = random(rows * d / 2);
    for (const int64_t row : {4, 5, 70, 101, 149})  // a value of each, then a key
      x[row * width + (heads + 2) * d + row % (2 * d)] = std::numeric_limits<float>::infinity();
    x[33 * width + heads * d] = std::numeric_limits<float>::quiet_NaN();
    std::vector<int32_t> positions;
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(r);
      // The first slot is odd; a row goes nowhere, a slot stays free, and slots go down at the end.
      const int32_t at = r < 60 ? r + 5 : r < 140 ? r + 6 : 300 - r;
      slots.push_back(r == 20 ? KvSlot{-1, 0} : KvSlot{at / kPageTokens, at % kPageTokens});
    }
    slots[99] = {7, 4};
    slots[100] = {6, 5};
    const int64_t ldq = device_->act_ld(heads * d);
    const size_t q_bytes = static_cast<size_t>(rows * ldq) * device_->act_bytes();
    const size_t row_bytes = q_bytes / rows;
    // Rows in steps of `each`, of which each in blocks of `block`,
    // with `vectors` of a row at a time.
    const int64_t all_vectors = heads + 2 * 2;
    const auto run = [&](int64_t each, int64_t block, int64_t vectors, std::byte* pool,
                         std::byte* q) {
      std::vector<bool> told;
      for (int64_t begin = 0; begin < rows; begin += each) {
        const auto from = static_cast<size_t>(begin), count = static_cast<size_t>(each);
        StepArrays arrays;
        arrays.rope_rows = std::span<const int32_t>(positions).subspan(from, count);
        arrays.slots = std::span<const KvSlot>(slots).subspan(from, count);
        arrays.heads = heads;
        arrays.kv = kv;
        arrays.pool = pool;
        QkvArgs args;
        args.qkv = x.data() + begin * width;
        args.ld = width;
        args.q_norm = args.k_norm = norm.data();
        args.norm_whole_width = whole;
        args.norm_eps = 1e-6f;
        args.rotary_dim = 40;
        args.cos = cos.data();
        args.sin = sin.data();
        args.q = {q + from * row_bytes, ldq};
        const std::unique_ptr<ops::Step> step = device_->begin_step(arrays);
        if (block == each) step->qkv(args);
        for (int64_t first = 0; block < each && first < each; first += block) {
          const int64_t count_rows = std::min(block, each - first);
          args.q = {q + (from + static_cast<size_t>(first)) * row_bytes, ldq};
          for (int64_t head = (all_vectors - 1) / vectors * vectors; head >= 0; head -= vectors) {
            const int64_t end_head = std::min(head + vectors, all_vectors);
            std::vector<float> slice;
            for (int64_t row = begin + first; row < begin + first + count_rows; ++row)
              slice.insert(slice.end(), x.begin() + row * width + head * d,
                           x.begin() + row * width + end_head * d);
            args.qkv = slice.data();
            args.ld = (end_head - head) * d;
            args.first_head = head;
            args.end_head = vectors == all_vectors ? 0 : end_head;
            step->qkv_rows(args, first, count_rows);
          }
        }
        const auto flags = step->not_finite();
        told.insert(told.end(), flags.begin(), flags.end());
      }
      return told;
    };
    const size_t bytes = static_cast<size_t>(pages) * kv.page_bytes();
    const std::vector<std::byte> zero(std::max(bytes, q_bytes));
    Buffer alone(*device_, bytes), together(*device_, bytes), q_alone(*device_, q_bytes),
        q_together(*device_, q_bytes);
    const auto clear = [&](Buffer& pool, Buffer& q) {
      device_->upload(pool.data(), zero.data(), bytes);
      device_->upload(q.data(), zero.data(), q_bytes);
    };
    clear(alone, q_alone);
    const std::vector<bool> want = run(1, 1, all_vectors, alone.data(), q_alone.data());
    EXPECT_EQ(std::ranges::count(want, true), 6);
    for (const int64_t block : {rows, int64_t{50}, int64_t{7}}) {
      for (const int64_t vectors : {all_vectors, int64_t{4}, int64_t{1}}) {
        if ((whole || block == rows) && vectors != all_vectors) continue;  // normed, split together
        SCOPED_TRACE(::testing::Message() << block << " rows, " << vectors << " vectors");
        clear(together, q_together);
        EXPECT_EQ(run(rows, block, vectors, together.data(), q_together.data()), want);
        EXPECT_EQ(0, std::memcmp(together.data(), alone.data(), bytes));
        EXPECT_EQ(0, std::memcmp(q_together.data(), q_alone.data(), q_bytes));
      }
    }
  }
}

TEST_P(RowOps, CopyPagesCopiesTheFirstTokensOnly) {
  const KvLayout kv{kv_of(type()), 2, 2, 80};
  constexpr int32_t kPages = 40;
  const size_t bytes = kPages * kv.page_bytes();
  for (int32_t tokens = 0; tokens <= kPageTokens; ++tokens) {
    Buffer pool(*device_, bytes);
    for (size_t i = 0; i < bytes / 4; ++i) {
      const uint32_t noise = static_cast<uint32_t>(rng_());
      std::memcpy(pool.data() + 4 * i, &noise, 4);
    }
    std::vector<std::byte> want(pool.data(), pool.data() + bytes);
    // The second copy reads what the first one wrote.
    const std::vector<PageCopy> copies = {{3, 7, tokens}, {7, 20, tokens}};
    for (const PageCopy& copy : copies) {
      for (int32_t head = 0; head < 2; ++head) {
        for (int32_t slot = 0; slot < tokens; ++slot) {
          for (int32_t i = 0; i < 96; ++i) {
            const size_t size = dtype_bytes(type());
            const size_t k = static_cast<size_t>(key_index(type(), slot, i)) * size;
            const size_t v = static_cast<size_t>(value_index(type(), slot, i)) * size;
            std::memcpy(&want[kv.key_offset(copy.to, 1, head) + k],
                        &want[kv.key_offset(copy.from, 1, head) + k], size);
            std::memcpy(&want[kv.value_offset(copy.to, 1, head) + v],
                        &want[kv.value_offset(copy.from, 1, head) + v], size);
          }
        }
      }
    }
    StepArrays arrays;
    arrays.copies = copies;
    arrays.kv = kv;
    arrays.pool = pool.data();
    device_->begin_step(arrays)->copy_pages(1);
    ASSERT_EQ(0, std::memcmp(want.data(), pool.data(), bytes)) << "tokens " << tokens;
  }
}

TEST_P(RowOps, ClearPagesClearsThoseOnly) {
  const KvLayout kv{kv_of(type()), 3, 1, 64};
  Buffer pool(*device_, 6 * kv.page_bytes());
  const std::vector<int32_t> pages = {4, 1};
  StepArrays arrays;
  arrays.clear = pages;
  arrays.kv = kv;
  arrays.pool = pool.data();
  device_->begin_step(arrays)->clear_pages();
  for (size_t i = 0; i < 6 * kv.page_bytes(); ++i) {
    const size_t page = i / kv.page_bytes();
    ASSERT_EQ(pool.data()[i], page == 1 || page == 4 ? std::byte{0} : std::byte{0xff});
  }
}

}  // namespace
}  // namespace prefix::ops::testing
