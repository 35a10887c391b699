// Dense segments by cuDNN's backend interface, driven by a library that does what descriptors say.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "cudnn_attention.h"
#include "kernels/fake_cudnn.h"
#include "kernels/sdpa_reference.h"

namespace prefix::ops::gpu {
namespace {

using Answer = CudnnAttention::Answer;

// Rows that are longer than they need to be, in memory that is aligned.
struct Segment {
  explicit Segment(const SdpaShape& shape, unsigned seed = 1) : shape(shape) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<Bits128>& data, int64_t elements) {
      data.resize(static_cast<size_t>(elements + 7) / 8);
      for (int64_t i = 0; i < elements; ++i)
        reinterpret_cast<uint16_t*>(data.data())[i] = bf16_from_f32(normal(random));
    };
    const int64_t kv = shape.keys * shape.kv_heads * shape.head_dim;
    fill(q, shape.rows * shape.ld_q);
    fill(k, kv);
    fill(v, kv);
    fill(o, shape.rows * shape.ld_o);
    sums.resize(static_cast<size_t>(shape.rows * shape.heads) / 4 + 1);
  }
  SdpaArgs args() {
    return {shape, q.data(), k.data(), v.data(), o.data(), reinterpret_cast<float*>(sums.data()),
            0.3f};
  }
  // The largest errors of the sums and of the results, and whether what lies beside them is as it
  // was.
  struct Difference {
    double sums = 0, o = 0;
    bool beside = true;
  };
  Difference difference(const Segment& want) const {
    Difference most;
    const auto* const a = reinterpret_cast<const uint16_t*>(o.data());
    const auto* const b = reinterpret_cast<const uint16_t*>(want.o.data());
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t i = 0; i < shape.ld_o; ++i) {
        const int64_t at = r * shape.ld_o + i;
        if (i >= width && (r < shape.rows - 1)) most.beside = most.beside && a[at] == b[at];
        if (i < width)
          most.o = std::max(most.o, std::abs(static_cast<double>(f32_from_bf16(a[at])) -
                                             static_cast<double>(f32_from_bf16(b[at]))));
      }
    for (int64_t i = 0; i < shape.rows * shape.heads; ++i)
      most.sums = std::max(
          most.sums,
          std::abs(static_cast<double>(reinterpret_cast<const float*>(sums.data())[i]) -
                   static_cast<double>(reinterpret_cast<const float*>(want.sums.data())[i])));
    return most;
  }

  struct alignas(16) Bits128 {
    unsigned char x[16];
  };
  SdpaShape shape;
  std::vector<Bits128> q, k, v, o, sums;
};

SdpaShape shape_of(int32_t causal, int64_t rows, int64_t keys) {
  return {causal, 6, 2, 16, rows, keys, 128, 104};
}

class CudnnTest : public ::testing::Test {
 protected:
  CudnnTest() {
    setenv("LIBPREFIX_CUDNN", PREFIX_FAKE_CUDNN, 1);
    fake_ = FakeCudnn{};
  }
  ~CudnnTest() override {
    cudnn_.close();
    EXPECT_EQ(fake_.alive, 0);
    for (const std::string& wrong : fake_.wrong) ADD_FAILURE() << wrong;
    unsetenv("LIBPREFIX_CUDNN");
  }
  bool open() {
    return cudnn_.open(this, this, [this] { ++fake_.waits; }, why_);
  }
  Answer attend(Segment& segment) { return cudnn_.attend(segment.args(), why_); }

  FakeCudnn& fake_ = fake_cudnn();
  CudnnAttention cudnn_;
  std::string why_;
};

TEST_F(CudnnTest, ResultsAndSumsAreThoseOfFloat64) {
  ASSERT_TRUE(open()) << why_;
  EXPECT_EQ(cudnn_.version(), 91901);
  EXPECT_EQ(fake_.streams, 1);
  for (const SdpaShape& shape :
       {shape_of(0, 24, 40), shape_of(1, 48, 48), shape_of(1, 24, 40), shape_of(0, 1, 8)}) {
    Segment got(shape), want(shape);
    ASSERT_TRUE(cudnn_.prepare(shape, why_)) << why_;
    ASSERT_EQ(attend(got), Answer::kDone) << why_;
    sdpa_reference(want.args());
    const Segment::Difference d = got.difference(want);
    EXPECT_LE(d.sums, 1e-4);
    EXPECT_LE(d.o, 2e-2);  // weights and results are rounded to bf16
    EXPECT_TRUE(d.beside);
  }
  EXPECT_EQ(fake_.executed, 4);
}

TEST_F(CudnnTest, AShapeIsPreparedOnce) {
  ASSERT_TRUE(open()) << why_;
  Segment first(shape_of(1, 16, 16)), second(shape_of(1, 16, 16), 2);
  ASSERT_TRUE(cudnn_.prepare(first.shape, why_));
  ASSERT_EQ(attend(first), Answer::kDone);
  ASSERT_EQ(attend(second), Answer::kDone);
  EXPECT_EQ(fake_.heuristics, 1);
  EXPECT_EQ(fake_.plans, 1);
  Segment other(shape_of(0, 16, 16));
  ASSERT_EQ(attend(other), Answer::kDone);
  EXPECT_EQ(fake_.heuristics, 2);
}

TEST_F(CudnnTest, TheFirstEngineThatWorksIsTaken) {
  ASSERT_TRUE(open()) << why_;
  fake_.engine_refuses = [](int engine) { return engine < 2; };
  Segment segment(shape_of(1, 16, 16));
  ASSERT_EQ(attend(segment), Answer::kDone) << why_;
  EXPECT_EQ(fake_.engine, 2);
}

TEST_F(CudnnTest, ARefusedShapeIsRememberedAndTheOthersGoOn) {
  ASSERT_TRUE(open()) << why_;
  fake_.engine_refuses = [](int) { return true; };
  EXPECT_FALSE(cudnn_.prepare(shape_of(1, 16, 16), why_));
  EXPECT_NE(why_.find("16 rows over 16 keys, causal, 6/2 heads of 16"), std::string::npos) << why_;
  EXPECT_NE(why_.find("because of the test"), std::string::npos) << why_;
  fake_.engine_refuses = {};
  EXPECT_FALSE(cudnn_.prepare(shape_of(1, 16, 16), why_));
  EXPECT_FALSE(why_.empty());
  EXPECT_EQ(fake_.heuristics, 1);
  Segment refused(shape_of(1, 16, 16)), other(shape_of(1, 32, 32));
  EXPECT_EQ(attend(refused), Answer::kRefused);
  EXPECT_EQ(attend(other), Answer::kDone);
}

TEST_F(CudnnTest, NothingProposedOrTooMuchMemoryIsARefusal) {
  ASSERT_TRUE(open()) << why_;
  fake_.engines = 0;
  EXPECT_FALSE(cudnn_.prepare(shape_of(0, 16, 16), why_));
  EXPECT_NE(why_.find("proposes nothing"), std::string::npos) << why_;
  fake_.engines = 20;  // more than are asked for
  fake_.workspace = static_cast<int64_t>(CudnnAttention::kWorkspaceBytes) + 1;
  EXPECT_FALSE(cudnn_.prepare(shape_of(0, 16, 32), why_));
  EXPECT_NE(why_.find("more memory"), std::string::npos) << why_;
  fake_.workspace = static_cast<int64_t>(CudnnAttention::kWorkspaceBytes);
  EXPECT_TRUE(cudnn_.prepare(shape_of(0, 16, 48), why_)) << why_;
}

// Whatever descriptor is not accepted: the shape is refused, nothing is used that is not finalized.
TEST_F(CudnnTest, ARefusedDescriptorIsARefusedShape) {
  ASSERT_TRUE(open()) << why_;
  int64_t rows = 16;
  for (const int type : {cudnn::kTensor, cudnn::kMatmul, cudnn::kMatmulOperation, cudnn::kReduction,
                         cudnn::kReductionOperation, cudnn::kPointwise, cudnn::kPointwiseOperation,
                         cudnn::kOperationGraph, cudnn::kEngineHeuristic, cudnn::kExecutionPlan}) {
    fake_.finalize_type = type;
    fake_.finalize_answer = 3001;
    EXPECT_FALSE(cudnn_.prepare(shape_of(1, rows, rows + 16), why_)) << type;
    rows += 16;
  }
  EXPECT_EQ(fake_.plans, 0);
}

TEST_F(CudnnTest, FailuresAreTold) {
  ASSERT_TRUE(open()) << why_;
  Segment segment(shape_of(0, 16, 16));
  fake_.execute_answer = 4004;
  EXPECT_EQ(attend(segment), Answer::kNoMemory);
  fake_.execute_answer = 0;
  EXPECT_EQ(attend(segment), Answer::kDone);
  // Accepted, and failed or refused after all: not asked again.
  fake_.execute_answer = 5000;
  EXPECT_EQ(attend(segment), Answer::kFailed);
  EXPECT_NE(why_.find("CUDNN_STATUS_AS_TOLD"), std::string::npos);
  Segment other(shape_of(0, 16, 32));
  fake_.execute_answer = 3000;
  EXPECT_EQ(attend(other), Answer::kRefused);
  fake_.execute_answer = 0;
  EXPECT_FALSE(cudnn_.prepare(segment.shape, why_));
  EXPECT_FALSE(cudnn_.prepare(other.shape, why_));
}

TEST_F(CudnnTest, AShapeThatFoundNoMemoryIsTriedAgain) {
  ASSERT_TRUE(open()) << why_;
  fake_.finalize_type = cudnn::kExecutionPlan;
  fake_.finalize_answer = 4004;
  EXPECT_FALSE(cudnn_.prepare(shape_of(1, 16, 16), why_));
  fake_.finalize_type = -1;
  EXPECT_TRUE(cudnn_.prepare(shape_of(1, 16, 16), why_)) << why_;
}

TEST_F(CudnnTest, PlansThatWereNotUsedForLongGo) {
  ASSERT_TRUE(open()) << why_;
  const SdpaShape first = shape_of(1, 16, 16);
  ASSERT_TRUE(cudnn_.prepare(first, why_));
  const int parts = fake_.alive;
  for (size_t i = 1; i < 2 * CudnnAttention::kMostPlans; ++i) {
    ASSERT_TRUE(cudnn_.prepare(shape_of(0, 16, static_cast<int64_t>(16 * i)), why_));
    ASSERT_TRUE(cudnn_.prepare(first, why_));  // in use
  }
  EXPECT_EQ(fake_.heuristics, static_cast<int>(2 * CudnnAttention::kMostPlans));
  EXPECT_LE(fake_.alive, static_cast<int>(CudnnAttention::kMostPlans) * parts);
  EXPECT_EQ(fake_.waits, static_cast<int>(CudnnAttention::kMostPlans));  // it may be running
}

// At the end of a process the library may be gone: nothing of it may be called.
TEST_F(CudnnTest, AbandonedObjectsStayAsTheyAre) {
  ASSERT_TRUE(open()) << why_;
  ASSERT_TRUE(cudnn_.prepare(shape_of(1, 16, 16), why_));
  const int alive = fake_.alive;
  cudnn_.abandon();
  EXPECT_EQ(fake_.alive, alive);
  fake_.alive = 0;
}

TEST_F(CudnnTest, WhatCannotBeOpenedSaysWhy) {
  for (const size_t version : {91000, 91001, 91400, 81000, 100000}) {
    fake_.version = version;
    EXPECT_FALSE(open());
    EXPECT_NE(why_.find("LIBPREFIX_CUDNN: " PREFIX_FAKE_CUDNN " is version"), std::string::npos)
        << why_;
  }
  EXPECT_NE(why_.find("10.0.0; version 9"), std::string::npos) << why_;
  fake_.version = 91002;
  EXPECT_TRUE(open()) << why_;
  fake_.create_answer = 1001;
  EXPECT_FALSE(open());
  EXPECT_NE(why_.find("cudnnCreate: CUDNN_STATUS_AS_TOLD"), std::string::npos) << why_;
  setenv("LIBPREFIX_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_FALSE(open());
  EXPECT_NE(why_.find("LIBPREFIX_CUDNN: /nowhere/libcudnn.so.9"), std::string::npos) << why_;
  unsetenv("LIBPREFIX_CUDNN");
  setenv("CUDNN_HOME", "/nowhere", 1);
  if (!open()) {
    EXPECT_NE(why_.find("cannot open libcudnn.so.9"), std::string::npos) << why_;
    EXPECT_NE(why_.find("/nowhere/lib/libcudnn.so.9"), std::string::npos) << why_;
  }
  unsetenv("CUDNN_HOME");
}

}  // namespace
}  // namespace prefix::ops::gpu
