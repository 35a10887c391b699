// Which algorithm of cuBLASLt does a product, and what happens when it refuses: driven by a library
// that refuses what the test wants.
#include "cublaslt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "kernels/fake_cublaslt.h"
#include "ops/cpu/pack.h"

namespace prefix::ops::gpu {
namespace {

using Answer = CublasLt::Answer;

// y = x w^T with rows that are longer than they need to be.
struct Product {
  Product(int64_t rows, int64_t n, bool biased = false, Element element = Element::kBf16)
      : w(n * ld_w), x(rows * ld_x), y(rows * (n + 4), 0.5f) {
    std::mt19937 random(static_cast<unsigned>(rows * 1000 + n));
    std::normal_distribution<float> normal;
    const bool narrow = element == Element::kBf16;
    for (auto [values, bits] : {std::pair(&w, &w_bits), std::pair(&x, &x_bits)})
      for (float& value : *values) {
        value = normal(random);
        bits->push_back(bf16_from_f32(value));
        if (narrow) value = f32_from_bf16(bits->back());
      }
    for (int64_t j = 0; biased && j < n; ++j) bias.push_back(normal(random));
    const void* const w_data = narrow ? static_cast<void*>(w_bits.data()) : w.data();
    const void* const x_data = narrow ? static_cast<void*>(x_bits.data()) : x.data();
    args = {w_data,   x_data,       biased ? bias.data() : nullptr,
            y.data(), rows,         n,
            k,        ld_w,         ld_x,
            n + 4,    Output::kF32, element};
  }
  void reset() { y.assign(y.size(), 0.5f); }
  // The largest error of y, which held 0.5.
  double error() const {
    double most = 0;
    for (int64_t r = 0; r < args.rows; ++r)
      for (int64_t j = 0; j < args.n; ++j) {
        double want =
            (args.output == Output::kF32Add ? 0.5 : 0.0) + (args.bias ? args.bias[j] : 0.0f);
        for (int64_t i = 0; i < k; ++i)
          want += static_cast<double>(w[j * ld_w + i]) * x[r * ld_x + i];
        most = std::max(most, std::abs(want - result(r * args.ld_y + j)));
      }
    return most;
  }

  float result(int64_t at) const {
    if (element_of(args.output, args.element) == Element::kF32) return y[at];
    uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<const unsigned char*>(y.data()) + 2 * at, sizeof bits);
    return f32_from_bf16(bits);
  }

  static constexpr int64_t k = 24, ld_w = k + 8, ld_x = k + 16;
  std::vector<float> w, x, y, bias;
  std::vector<uint16_t> w_bits, x_bits;
  GemmArgs args{};
};

class CublasLtTest : public ::testing::Test {
 protected:
  CublasLtTest() {
    setenv("LIBPREFIX_CUBLASLT", PREFIX_FAKE_CUBLASLT, 1);
    fake_ = FakeCublasLt{};
  }
  ~CublasLtTest() override {
    EXPECT_EQ(fake_.mistakes, 0);
    unsetenv("LIBPREFIX_CUBLASLT");
  }
  void open(bool invariant) {
    lt_ = std::make_unique<CublasLt>();
    ASSERT_TRUE(lt_->open(invariant, this, why_)) << why_;
  }
  void expect_why(const char* part) const { EXPECT_NE(why_.find(part), std::string::npos) << why_; }
  // What is said when it does not open.
  std::string refusal() { return CublasLt().open(false, nullptr, why_) ? "" : why_; }
  Answer gemm(Product& product) { return lt_->gemm(product.args, nullptr, why_); }
  std::set<int> algorithms() const {
    std::set<int> used;
    for (const auto& p : fake_.products) used.insert(p.algorithm);
    return used;
  }

  FakeCublasLt& fake_ = fake_cublaslt();
  std::unique_ptr<CublasLt> lt_;
  std::string why_;
};

// Where reading and writing the result takes as long as multiplying.
TEST_F(CublasLtTest, ShortProductsThatAddTakeTheMostTiles) {
  fake_.waves = {3.9f, 5.8f, 7.8f, 0.9f};
  std::vector<int> order;
  fake_.matmul_refuses = [&](int algorithm, int64_t, int64_t) {
    order.push_back(algorithm);
    return true;
  };
  const auto tried = [&](int64_t rows, int64_t k, Output output, bool invariant) {
    open(invariant);
    order.clear();
    GemmArgs a{};
    a.rows = rows;
    a.n = a.ld_y = 64;
    a.k = a.ld_w = a.ld_x = k;
    a.output = output;
    lt_->gemm(a, nullptr, why_);
    return order;
  };
  const std::vector<int> as_proposed = {0, 1, 2, 3}, most_first = {2, 0, 1, 3};
  EXPECT_EQ(tried(2048, 3072, Output::kF32Add, false), most_first);
  EXPECT_EQ(tried(2047, 3072, Output::kF32Add, false), as_proposed);
  EXPECT_EQ(tried(2048, 3073, Output::kF32Add, false), as_proposed);
  EXPECT_EQ(tried(2048, 3072, Output::kF32, false), as_proposed);
  EXPECT_EQ(tried(2048, 3072, Output::kF32Add, true).at(0), 0);
}

TEST_F(CublasLtTest, ProductsAreRight) {
  for (const bool invariant : {false, true})
    for (const Element element : {Element::kBf16, Element::kF32})
      for (const bool bias : {false, true})
        for (const Output output : {Output::kF32, Output::kF32Add}) {
          open(invariant);
          Product p(3, 40, bias, element);
          p.args.output = output;
          ASSERT_EQ(gemm(p), Answer::kDone) << why_;
          EXPECT_LE(p.error(), 1e-5);
        }
}

// Of the same sizes one product may be an activation and another one f32.
TEST_F(CublasLtTest, ResultsMayBeActivations) {
  for (const bool invariant : {false, true}) {
    fake_.check_refuses = [](int, int64_t, int64_t n) { return n == 70; };
    open(invariant);
    for (const int64_t n : {40, 70}) {
      Product wide(3, n), narrow(3, n);
      narrow.args.output = Output::kActivation;
      ASSERT_EQ(gemm(wide), Answer::kDone) << why_;
      ASSERT_EQ(gemm(narrow), Answer::kDone) << why_;
      EXPECT_LE(wide.error(), 1e-5);
      EXPECT_LE(narrow.error(), 0.1);  // sums of up to 20 in bf16
      EXPECT_GT(narrow.error(), 1e-4);
      EXPECT_EQ(narrow.result(4), f32_from_bf16(bf16_from_f32(wide.result(4))));
    }
  }
}

TEST_F(CublasLtTest, AShapeIsPreparedOnce) {
  open(false);
  Product first(3, 40, true), second(3, 40, true);
  for (float& b : second.bias) b += 1;  // another layer
  ASSERT_EQ(gemm(first), Answer::kDone);
  const int created = fake_.created;
  ASSERT_EQ(gemm(second), Answer::kDone);
  first.reset();
  ASSERT_EQ(gemm(first), Answer::kDone);
  EXPECT_EQ(fake_.created, created);
  EXPECT_EQ(fake_.heuristics, 1);
  EXPECT_LE(first.error(), 1e-5);
  EXPECT_LE(second.error(), 1e-5);
}

// At the end of a process the library may be gone: nothing of it may be called.
TEST_F(CublasLtTest, WhatItCreatesItDestroysOrAbandons) {
  for (const bool abandon : {false, true})
    for (const bool invariant : {false, true}) {
      const int before = fake_.alive;
      open(invariant);
      for (const int64_t rows : {1, 5, 9}) {
        Product p(rows, 40);
        ASSERT_EQ(gemm(p), Answer::kDone);
      }
      const int alive = fake_.alive;
      if (abandon) lt_->abandon();
      lt_.reset();
      EXPECT_EQ(fake_.alive, abandon ? alive : before);
    }
}

TEST_F(CublasLtTest, TheNextCandidateDoesWhatTheFirstRefuses) {
  for (const int refusal : {15, 7, 8}) {
    fake_ = FakeCublasLt{};
    fake_.refusal = refusal;
    fake_.matmul_refuses = [](int algorithm, int64_t rows, int64_t) {
      return rows == 3 && algorithm < 2;
    };
    open(false);
    Product p(3, 40), other(4, 40);
    ASSERT_EQ(gemm(p), Answer::kDone);
    EXPECT_EQ(algorithms(), std::set<int>{2});
    EXPECT_LE(p.error(), 1e-5);
    ASSERT_EQ(gemm(p), Answer::kDone);
    EXPECT_EQ(fake_.refused, 2) << "what refused once is asked again";
    ASSERT_EQ(gemm(other), Answer::kDone);
    EXPECT_EQ(fake_.products.back().algorithm, 0);
  }
}

TEST_F(CublasLtTest, AShapeThatAllRefuseIsNoFailure) {
  fake_.matmul_refuses = [](int, int64_t rows, int64_t) { return rows == 3; };
  open(false);
  Product p(3, 40), other(4, 40);
  EXPECT_EQ(gemm(p), Answer::kUnsupported);
  EXPECT_EQ(gemm(p), Answer::kUnsupported);
  EXPECT_EQ(fake_.refused, 4);
  EXPECT_EQ(gemm(other), Answer::kDone);

  fake_.algorithms = 0;
  open(false);
  EXPECT_EQ(gemm(other), Answer::kUnsupported);
}

TEST_F(CublasLtTest, FailuresAreToldApart) {
  open(false);
  Product p(3, 40);
  fake_.matmul_answer = 13;  // CUBLAS_STATUS_EXECUTION_FAILED
  EXPECT_EQ(gemm(p), Answer::kFailed);
  expect_why("answered 13 for y[3, 40] = x w^T with k = 24");
  fake_.matmul_answer = 3;  // CUBLAS_STATUS_ALLOC_FAILED
  EXPECT_EQ(gemm(p), Answer::kNoMemory);
  fake_.matmul_answer = 0;
  EXPECT_EQ(gemm(p), Answer::kDone);
}

// --- invariant -----------------------------------------------------------------------------------

TEST_F(CublasLtTest, InvariantProductsOfOneKHaveOneAlgorithm) {
  fake_.check_refuses = [](int algorithm, int64_t, int64_t n) { return n == 32 && algorithm == 0; };
  open(true);
  for (const int64_t n : {40, 32, 70})
    for (const int64_t rows : {1, 2, 33, 300}) {
      Product p(rows, n);
      ASSERT_EQ(gemm(p), Answer::kDone);
    }
  EXPECT_EQ(algorithms(), std::set<int>{1});
  EXPECT_EQ(fake_.heuristics, 1);
  EXPECT_EQ(fake_.reduction_mask, 0u);
}

TEST_F(CublasLtTest, AnInvariantAlgorithmAcceptsAllRowCounts) {
  fake_.check_refuses = [](int algorithm, int64_t rows, int64_t) {
    return (algorithm == 0 && rows == 1) || (algorithm == 1 && rows == 17) ||
           (algorithm == 2 && rows == 8192);
  };
  open(true);
  Product p(300, 40);
  ASSERT_EQ(gemm(p), Answer::kDone);
  EXPECT_EQ(algorithms(), std::set<int>{3});
}

TEST_F(CublasLtTest, AnInvariantAlgorithmFitsIntoTheWorkspace) {
  fake_.workspace = CublasLt::kWorkspaceBytes + 1;
  open(true);
  Product p(300, 40);
  EXPECT_EQ(gemm(p), Answer::kUnsupported);
}

// A slow kernel for some rows only would give them other bits than the rest.
TEST_F(CublasLtTest, WhatNoInvariantAlgorithmAcceptsIsRefusedForAllRows) {
  fake_.check_refuses = [](int, int64_t rows, int64_t) { return rows == 7; };
  open(true);
  for (const int64_t rows : {1, 7, 300}) {
    Product p(rows, 40);
    EXPECT_EQ(gemm(p), Answer::kUnsupported) << rows;
  }
  EXPECT_TRUE(fake_.products.empty());
}

// A matrix that comes later and is refused: in columns, so that it has the bits of its panels.
TEST_F(CublasLtTest, ColumnsThatAnInvariantAlgorithmRefusesAreDoneInParts) {
  fake_.check_refuses = [](int algorithm, int64_t rows, int64_t n) {
    return algorithm == 0 && n >= 64 && rows == 7;
  };
  open(true);
  for (const bool bias : {false, true}) {
    Product first(9, 40, bias);
    ASSERT_EQ(gemm(first), Answer::kDone);
    for (const int64_t rows : {1, 7, 300}) {
      Product later(rows, 70, bias);
      fake_.products.clear();
      ASSERT_EQ(gemm(later), Answer::kDone) << why_;
      EXPECT_LE(later.error(), 1e-5) << rows;
      later.args.output = Output::kF32Add;
      later.reset();
      const int checks = fake_.checks;
      ASSERT_EQ(gemm(later), Answer::kDone) << why_;
      EXPECT_LE(later.error(), 1e-5) << rows;
      EXPECT_EQ(fake_.checks, checks) << "what refused once is asked again";
      std::vector<int64_t> columns;
      for (const auto& p : fake_.products) columns.push_back(p.n);
      EXPECT_EQ(columns, (std::vector<int64_t>{32, 32, 6, 32, 32, 6}));
    }
  }
  EXPECT_EQ(algorithms(), std::set<int>{0});
}

// No part of a product may come from the slow kernel; all of a small one may.
TEST_F(CublasLtTest, ColumnsThatAreRefusedInPartsTooEndTheRequest) {
  fake_.check_refuses = [](int, int64_t, int64_t n) { return n == 70 || n == 6; };
  open(true);
  Product first(9, 40), later(9, 70), small(9, 6);
  ASSERT_EQ(gemm(first), Answer::kDone);
  EXPECT_EQ(gemm(later), Answer::kRefused);
  EXPECT_EQ(gemm(small), Answer::kUnsupported);
}

TEST_F(CublasLtTest, RowsThatAnInvariantAlgorithmRefusesAreDoneInParts) {
  fake_.matmul_refuses = [](int, int64_t rows, int64_t) {
    return (rows & (rows - 1)) != 0 || rows > 64;
  };
  open(true);
  for (const int64_t rows : {3, 100, 333}) {
    Product p(rows, 40, true);
    ASSERT_EQ(gemm(p), Answer::kDone);
    EXPECT_LE(p.error(), 1e-5) << rows;
    p.args.output = Output::kF32Add;
    p.reset();
    const int refused = fake_.refused;
    ASSERT_EQ(gemm(p), Answer::kDone);
    EXPECT_EQ(fake_.refused, refused) << "what refused once is asked again";
    EXPECT_LE(p.error(), 1e-5) << rows;
  }
  EXPECT_EQ(algorithms(), std::set<int>{0});
}

TEST_F(CublasLtTest, OneRowThatIsRefusedAfterAllEndsTheRequest) {
  fake_.matmul_refuses = [](int, int64_t, int64_t) { return true; };
  open(true);
  Product p(3, 40);
  EXPECT_EQ(gemm(p), Answer::kRefused);
  expect_why("invariant=true allows no other way");
}

// --- opening -------------------------------------------------------------------------------------

TEST_F(CublasLtTest, AFileThatTheEnvironmentNamesIsTheOnlyOne) {
  setenv("LIBPREFIX_CUBLASLT", "/nowhere/libcublasLt.so.13", 1);
  EXPECT_EQ(refusal().find("LIBPREFIX_CUBLASLT: /nowhere/libcublasLt.so.13: "), 0u) << why_;
}

TEST_F(CublasLtTest, ALibraryThatIsTooOldSaysSo) {
  fake_.version = 120904;
  EXPECT_NE(refusal(), "");
  expect_why("is version 12.9; 13.0 is the oldest that works");
  fake_.version = 130000;
  open(false);
  EXPECT_EQ(lt_->version(), 130000);
}

TEST_F(CublasLtTest, ALibraryThatIsSomethingElseSaysWhatItLacks) {
  setenv("LIBPREFIX_CUBLASLT", "libm.so.6", 1);
  EXPECT_NE(refusal(), "");
  expect_why("libm.so.6 has no function cublasLtGetVersion");
}

TEST_F(CublasLtTest, WithoutTheEnvironmentEachPlaceSaysItsReason) {
  unsetenv("LIBPREFIX_CUBLASLT");
  if (refusal().empty()) GTEST_SKIP() << "there is a cuBLASLt";
  for (const char* part : {"libcublasLt.so.13: ", "/usr/local/cuda/lib64/libcublasLt.so.13: ",
                           "LIBPREFIX_CUBLASLT can name the file"})
    expect_why(part);
}

}  // namespace
}  // namespace prefix::ops::gpu
