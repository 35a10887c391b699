// Operations on rows at every CPU level of this machine: those of all devices (row_operations.cc,
// product_operations.cc), those that only a CPU has, and rows alone against rows together.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "ops/row_operations.h"

namespace prefix::ops::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Levels, RowOps, ::testing::ValuesIn(levels()), device_name);

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

}  // namespace
}  // namespace prefix::ops::testing
