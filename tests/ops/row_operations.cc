// Norms, the q/k/v split with rotary embedding and page writes, page copies: of each device against
// float64 or the contract of step.h.
#include "ops/row_operations.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/finite.h"

namespace prefix::ops::testing {

TEST_P(RowOps, RmsNorm) {
  for (const auto& [n, ld] : {std::pair<int64_t, int64_t>{1, 4},
                              {7, 10},
                              {64, 67},
                              {100, 103},
                              {576, 576},
                              {1024, 1027},
                              {1041, 1044},
                              {1044, 1048}}) {
    const int64_t rows = 19, ld_out = device_->act_ld(n);
    const std::vector<float> x = random(rows * ld), weight = random(n, 0.5f, 2);
    const DeviceArray dx(*device_, x), dw(*device_, weight), out = activations(rows, ld_out);
    device_->rms_norm(dx.floats(), ld, dw.floats(), 1e-5f, rows, n, {out.data(), ld_out});
    const std::vector<float> got = out.values(act_);
    for (int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms(&x[r * ld], n, 1e-5f);
      for (int64_t i = 0; i < n; ++i)
        expect_close(got[r * ld_out + i], x[r * ld + i] * scale * weight[i], act_,
                     cat("n ", n, " row ", r, " column ", i));
      EXPECT_TRUE(n == ld_out || std::isnan(got[r * ld_out + n]));  // nothing behind the row
      const DeviceArray alone = activations(1, ld_out);
      device_->rms_norm(dx.floats() + r * ld, ld, dw.floats(), 1e-5f, 1, n, {alone.data(), ld_out});
      const std::vector<float> one = alone.values(act_);
      EXPECT_EQ(0,
                std::memcmp(one.data(), &got[r * ld_out], static_cast<size_t>(n) * sizeof(float)))
          << "row " << r;
    }
  }
}

TEST_P(RowOps, RmsNormF32InPlaceAndAdded) {
  for (const auto& [n, ld] :
       {std::pair<int64_t, int64_t>{5, 5}, {96, 96}, {200, 203}, {1041, 1044}}) {
    const int64_t rows = 11;
    const std::vector<float> x = random(rows * ld), weight = random(n), before = random(rows * ld);
    const DeviceArray dx(*device_, x), dw(*device_, weight), in_place(*device_, x),
        added(*device_, before);
    device_->rms_norm_f32(in_place.floats(), ld, dw.floats(), 1e-6f, rows, n, in_place.floats(), ld,
                          false);
    device_->rms_norm_f32(dx.floats(), ld, dw.floats(), 1e-6f, rows, n, added.floats(), ld, true);
    const auto normed = in_place.values(DType::kF32), sum = added.values(DType::kF32);
    for (int64_t r = 0; r < rows; ++r) {
      const double scale = inverse_rms(&x[r * ld], n, 1e-6f);
      for (int64_t i = 0; i < n; ++i) {
        const double want = x[r * ld + i] * scale * weight[i];
        expect_close(normed[r * ld + i], want, DType::kF32, cat("n ", n, " row ", r));
        expect_close(sum[r * ld + i], before[r * ld + i] + want, DType::kF32, cat("added ", n));
      }
    }
  }
}

struct QkvCase {
  int32_t heads, kv_heads, head_dim, rotary_dim;
  int norm;  // 0 none, 1 per head, 2 whole width
  bool bias = false;
  bool odd = false;  // rows begin where pairs of elements are not aligned
};

TEST_P(RowOps, QkvNormsRotatesAndWritesPages) {
  for (const QkvCase& c :
       {QkvCase{4, 2, 64, 64, 0}, QkvCase{4, 2, 128, 128, 1}, QkvCase{6, 2, 80, 80, 2},
        QkvCase{3, 3, 80, 40, 1}, QkvCase{2, 1, 96, 72, 0}, QkvCase{2, 2, 48, 30, 2},
        QkvCase{3, 1, 33, 32, 1}, QkvCase{5, 1, 64, 0, 1}, QkvCase{2, 1, 64, 64, 1, true},
        QkvCase{3, 1, 64, 64, 2}, QkvCase{4, 2, 128, 128, 2, true}, QkvCase{3, 2, 128, 0, 1},
        QkvCase{2, 1, 256, 256, 1}, QkvCase{2, 2, 256, 256, 0, true},
        QkvCase{2, 1, 128, 64, 1, true}, QkvCase{4, 2, 128, 128, 1, true, true},
        QkvCase{4, 2, 64, 64, 2, true, true}, QkvCase{2, 1, 80, 80, 0, true}}) {
    SCOPED_TRACE(cat("heads ", c.heads, "/", c.kv_heads, " head_dim ", c.head_dim, " rotary ",
                     c.rotary_dim, " norm ", c.norm, " bias ", c.bias, " odd ", c.odd));
    const int64_t rows = 13, positions_n = 100, d = c.head_dim, half = c.rotary_dim / 2;
    const int64_t width = (c.heads + 2 * c.kv_heads) * d, ld = width + (c.odd ? 5 : 6);
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
      // Row 4 is recomputed only: its key and value go nowhere. All slots differ.
      slots.push_back({r == 4 ? -1 : r % 4, r * 2 % kPageTokens + r / 8});
    }
    const DeviceArray pool(*device_, 4 * kv.page_bytes());
    const std::vector<int32_t> pages = {0, 1, 2, 3};
    const std::unique_ptr<ops::Step> step = device_->begin_step({.tokens = positions,  // as many
                                                                 .rope_rows = positions,
                                                                 .slots = slots,
                                                                 .clear = pages,
                                                                 .heads = c.heads,
                                                                 .kv = kv,
                                                                 .pool = pool.data()});
    step->clear_pages();
    std::vector<float> x = random(step->rows() * ld, -3, 3);
    const std::vector<float> bias = random(width, -2, 2);
    const DeviceArray dx(*device_, elements(x, ld, ld, projected_)), dbias(*device_, bias);
    // A CPU adds the bias before: it ignores this one.
    for (int64_t i = 0; i < rows * ld; ++i)
      x[i] = rounded(x[i], projected_) + (c.bias && on_gpu() && i % ld < width ? bias[i % ld] : 0);
    const DeviceArray dq(*device_, q_norm), dk(*device_, k_norm), dcos(*device_, cos),
        dsin(*device_, sin);
    const int64_t ldq = device_->act_ld(c.heads * d);
    const DeviceArray q = activations(step->rows(), ldq);
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
    const std::vector<float> got_q = q.values(act_);
    std::vector<std::byte> left = pool.bytes();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const auto v = want(r, 0, c.heads, q_norm.data(), true).of(h);
        for (int64_t i = 0; i < d; ++i)
          expect_close(got_q[r * ldq + h * d + i], v[i], act_, cat("q row ", r));
      }
      if (slots[r].page < 0) continue;
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        const auto k = want(r, c.heads * d, c.kv_heads, k_norm.data(), true).of(h);
        const auto v = want(r, (c.heads + c.kv_heads) * d, c.kv_heads, nullptr, false).of(h);
        std::byte* const keys = left.data() + kv.key_offset(slots[r].page, 1, h);
        std::byte* const values = left.data() + kv.value_offset(slots[r].page, 1, h);
        for (int64_t i = 0; i < d; ++i) {
          const int64_t key = key_at(kv, slots[r].slot, i), value = value_at(kv, slots[r].slot, i);
          expect_close(get(keys, key, type()), k[i], type(), cat("k row ", r));
          expect_close(get(values, value, type()), v[i], type(), cat("v row ", r));
          put(keys, key, type(), 0);  // what is left must be untouched
          put(values, value, type(), 0);
        }
      }
    }
    EXPECT_EQ(left, std::vector<std::byte>(left.size()));
  }
}

// What is not finite, also by rounding, is told and stored as 0; its neighbours are what they are.
TEST_P(RowOps, QkvStoresFiniteKeysAndValuesOnlyAndTellsOfOthers) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const int32_t head_dim : {40, 64}) {  // a GPU writes them element by element, in pairs
    const KvLayout kv{kv_of(type()), 1, 2, head_dim};
    const int64_t rows = 11, d = head_dim, width = 6 * d;
    struct Bad {
      int64_t row, column;
      float value;
    };
    const Bad bad[] = {{1, 2 * d, NAN},       {2, 4 * d - 1, INFINITY},
                       {3, 4 * d + 17, -NAN}, {4, 6 * d - 1, -INFINITY},
                       {5, 3 * d, kMax},                         // a bf16 cannot hold it
                       {6, 3, NAN},                              // a query is the row's own matter
                       {7, 3 * d, 3e38f},     {8, 5 * d, NAN}};  // goes nowhere
    std::vector<bool> told(rows);
    told[1] = told[2] = told[3] = told[4] = true;
    told[5] = type() == DType::kBf16;
    const std::vector<int32_t> positions(rows, 0), pages = {0};
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < rows; ++r) slots.push_back({r == 8 ? -1 : 0, r});
    const DeviceArray pool(*device_, kv.page_bytes());
    const std::unique_ptr<ops::Step> step = device_->begin_step({.tokens = positions,  // as many
                                                                 .rope_rows = positions,
                                                                 .slots = slots,
                                                                 .clear = pages,
                                                                 .heads = 2,
                                                                 .kv = kv,
                                                                 .pool = pool.data()});
    step->clear_pages();
    std::vector<float> x = random(step->rows() * width, -3, 3);
    for (const Bad& b : bad) x[b.row * width + b.column] = b.value;
    const DeviceArray dx(*device_, elements(x, width, width, projected_));
    const int64_t ldq = device_->act_ld(2 * d);
    const DeviceArray q = activations(step->rows(), ldq);
    step->qkv({.qkv = dx.data(), .ld = width, .q = {q.data(), ldq}});
    const auto flags = step->not_finite();
    step->end();
    EXPECT_EQ(std::vector<bool>(flags.begin(), flags.end()), told);
    const std::vector<std::byte> page = pool.bytes();
    EXPECT_TRUE(all_finite(page.data(), page.size(), kv.type));
    for (int32_t r = 0; r < rows; ++r) {
      if (slots[r].page < 0) continue;
      for (int64_t v = 0; v < 4; ++v) {
        const std::byte* const block =
            page.data() + (v < 2 ? kv.key_offset(0, 0, v) : kv.value_offset(0, 0, v - 2));
        for (int64_t i = 0; i < d; ++i) {
          const int64_t column = (2 + v) * d + i;
          const bool spoiled = std::any_of(std::begin(bad), std::end(bad), [&](const Bad& b) {
            return b.row == r && b.column == column && told[r];
          });
          ASSERT_EQ(get(block, v < 2 ? key_at(kv, r, i) : value_at(kv, r, i), type()),
                    spoiled ? 0 : rounded(x[r * width + column], type()))
              << "row " << r << " column " << column;
        }
      }
    }
  }
}

TEST_P(RowOps, CopyPagesCopiesTheFirstTokensInOrder) {
  const KvLayout kv{kv_of(type()), 2, 2, 80};
  std::vector<std::byte> content(30 * kv.page_bytes());
  for (std::byte& b : content) b = static_cast<std::byte>(rng_());
  for (int32_t tokens = 0; tokens <= kPageTokens; ++tokens) {
    const DeviceArray pool(*device_, content);
    // The second reads what the first wrote; the third overwrites what the first read.
    const std::vector<PageCopy> copies = {{3, 7, tokens}, {7, 20, tokens}, {9, 3, tokens}};
    const auto step = device_->begin_step({.copies = copies, .kv = kv, .pool = pool.data()});
    step->copy_pages(1);
    step->end();
    for (const auto& [from, to, count] : copies)
      for (int32_t head = 0; head < 2; ++head)
        for (int64_t slot = 0; slot < count; ++slot)
          for (int64_t i = 0; i < kv.d_padded(); ++i) {
            const size_t size = dtype_bytes(type());
            const size_t key = static_cast<size_t>(key_at(kv, slot, i)) * size;
            const size_t value = static_cast<size_t>(value_at(kv, slot, i)) * size;
            std::memcpy(&content[kv.key_offset(to, 1, head) + key],
                        &content[kv.key_offset(from, 1, head) + key], size);
            std::memcpy(&content[kv.value_offset(to, 1, head) + value],
                        &content[kv.value_offset(from, 1, head) + value], size);
          }
    ASSERT_EQ(pool.bytes(), content) << "tokens " << tokens;
  }
}

TEST_P(RowOps, ClearPagesClearsThoseOnly) {
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

}  // namespace prefix::ops::testing
