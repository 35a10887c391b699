// Pages of keys and values in whole numbers, as kv_layout.h says they lie:
// written, copied, checked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "ops/attention_reference.h"  // Buffer
#include "ops/finite.h"
#include "ops/op_cpu.h"
#include "ops/rotation.h"

namespace prefix::ops::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<Device> make_device(const std::string& isa) {
  NumericTypes types = kF32Types;
  types.kv = KvType::kInt8;
  return make_cpu_device({types, isa, std::make_shared<Threads>(2)});
}

float scale_at(const std::byte* block, const KvLayout& kv, int64_t slot) {
  float scale;
  std::memcpy(&scale, block + kv.d_padded() * 32 + slot * 4, sizeof scale);
  return scale;
}
std::vector<float> key_at(const std::byte* block, const KvLayout& kv, int64_t slot) {
  std::vector<float> x;
  for (int64_t i = 0; i < kv.head_dim; ++i)
    x.push_back(
        static_cast<float>(std::to_integer<int>(block[(i / 4 * 32 + slot) * 4 + i % 4]) - 128));
  std::vector<float> ones(x.size(), 1.0f);
  const auto block_size = static_cast<float>(rotation_block(kv.head_dim));
  turn_back(kv.head_dim, ones.data(), scale_at(block, kv, slot) * block_size, x.data());
  return x;
}
std::vector<float> value_at(const std::byte* block, const KvLayout& kv, int64_t slot) {
  std::vector<float> x;
  for (int64_t i = 0; i < kv.head_dim; ++i) {
    const int64_t at = i / 32 * 1024 + (slot / 4 * 32 + i % 32) * 4 + slot % 4;
    x.push_back(scale_at(block, kv, slot) * static_cast<float>(static_cast<int8_t>(block[at])));
  }
  return x;
}

class KvInt8Pages : public ::testing::TestWithParam<int32_t> {
 protected:
  // Row r of x in slot r of page 0, as a level writes it.
  std::vector<std::byte> write(const std::string& isa, std::vector<bool>* told = nullptr) {
    const auto device = make_device(isa);
    const int64_t d = kv_.head_dim, width = 6 * d, ldq = device->act_ld(2 * d);
    Buffer pool(*device, kv_.page_bytes()), q(*device, 32 * static_cast<size_t>(ldq) * 4);
    const std::vector<int32_t> positions(32, 0), pages = {0};
    std::vector<KvSlot> slots;
    for (int32_t r = 0; r < 32; ++r) slots.push_back({0, r});
    StepArrays arrays;
    arrays.rope_rows = positions;
    arrays.slots = slots;
    arrays.clear = pages;
    arrays.heads = 2;
    arrays.kv = kv_;
    arrays.pool = pool.data();
    const std::unique_ptr<ops::Step> step = device->begin_step(arrays);
    step->clear_pages();
    QkvArgs args;
    args.qkv = x_.data();
    args.ld = width;
    args.q = {q.data(), ldq};
    step->qkv(args);
    const auto flags = step->not_finite();
    if (told != nullptr) told->assign(flags.begin(), flags.end());
    return {pool.data(), pool.data() + kv_.page_bytes()};
  }
  void SetUp() override {
    kv_ = {KvType::kInt8, 1, 2, GetParam()};
    std::mt19937 random(5);
    x_.resize(32 * 6 * static_cast<size_t>(kv_.head_dim));
    for (float& v : x_) v = std::uniform_real_distribution<float>(-3, 3)(random);
  }
  const float* key(int64_t row, int64_t head) const {
    return x_.data() + (row * 6 + 2 + head) * kv_.head_dim;
  }

  KvLayout kv_;
  std::vector<float> x_;
};

TEST_P(KvInt8Pages, HoldWhatWasWrittenInTheSameBytesAtEveryLevel) {
  const std::vector<std::byte> page = write("scalar");
  EXPECT_EQ(kv_.page_bytes() % 64, 0u);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t slot = 0; slot < 32; ++slot) {
      const float* const want = key(slot, head);
      const auto k = key_at(page.data() + kv_.key_offset(0, 0, head), kv_, slot);
      const auto v = value_at(page.data() + kv_.value_offset(0, 0, head), kv_, slot);
      const float unit = scale_at(page.data() + kv_.value_offset(0, 0, head), kv_, slot);
      double error = 0, square = 0;
      for (int64_t i = 0; i < kv_.head_dim; ++i) {
        error += (k[i] - want[i]) * (k[i] - want[i]);
        square += want[i] * want[i];
        ASSERT_NEAR(v[i], want[i + 2 * kv_.head_dim], 0.501 * unit) << slot << ' ' << i;
      }
      EXPECT_LT(std::sqrt(error / square), 0.02) << slot;
    }
  }
  for (const IsaLevel& level : cpu_isa_levels())
    if (level.available) {
      EXPECT_EQ(write(std::string(level.name)), page) << level.name;
    }
}

TEST_P(KvInt8Pages, AreFiniteAndTellOfWhatIsNot) {
  const std::vector<std::byte> clean = write("auto");
  const_cast<float*>(key(3, 1))[GetParam() - 1] = kNan;
  const_cast<float*>(key(9, 3))[0] = -std::numeric_limits<float>::infinity();  // a value
  std::vector<bool> told;
  std::vector<std::byte> page = write("auto", &told);
  for (size_t r = 0; r < 32; ++r) EXPECT_EQ(told[r], r == 3 || r == 9) << r;
  EXPECT_TRUE(page_is_finite(page.data(), kv_));
  EXPECT_EQ(scale_at(page.data() + kv_.key_offset(0, 0, 1), kv_, 3), 0.0f);
  EXPECT_EQ(scale_at(page.data() + kv_.value_offset(0, 0, 1), kv_, 9), 0.0f);
  EXPECT_EQ(scale_at(page.data() + kv_.key_offset(0, 0, 1), kv_, 4),
            scale_at(clean.data() + kv_.key_offset(0, 0, 1), kv_, 4));
  for (const bool value : {false, true})
    for (const int64_t slot : {0, 31}) {
      std::vector<std::byte> bad = page;
      const size_t at = value ? kv_.value_offset(0, 0, 1) : kv_.key_offset(0, 0, 0);
      std::memcpy(&bad[at + static_cast<size_t>(kv_.d_padded() * 32 + slot * 4)], &kNan, 4);
      EXPECT_FALSE(page_is_finite(bad.data(), kv_));
    }
}

TEST_P(KvInt8Pages, AreCopiedByToken) {
  const auto device = make_device("auto");
  std::mt19937 random(6);
  const size_t bytes = 2 * kv_.page_bytes();
  for (int32_t tokens = 0; tokens <= kPageTokens; ++tokens) {
    Buffer pool(*device, bytes);
    for (size_t i = 0; i < bytes; ++i) pool.data()[i] = static_cast<std::byte>(random());
    std::vector<std::byte> want(pool.data(), pool.data() + bytes);
    for (int64_t head = 0; head < 2; ++head) {
      for (const bool value : {false, true}) {
        const auto offset = [&](int64_t page) {
          return value ? kv_.value_offset(page, 0, head) : kv_.key_offset(page, 0, head);
        };
        const auto move = [&](int64_t at, size_t n) {
          std::memcpy(&want[offset(1) + static_cast<size_t>(at)],
                      &want[offset(0) + static_cast<size_t>(at)], n);
        };
        for (int64_t slot = 0; slot < tokens; ++slot) {
          move(kv_.d_padded() * 32 + slot * 4, 4);
          for (int64_t i = 0; i < kv_.d_padded(); ++i)
            move(value ? i / 32 * 1024 + (slot / 4 * 32 + i % 32) * 4 + slot % 4
                       : (i / 4 * 32 + slot) * 4 + i % 4,
                 1);
        }
      }
    }
    const std::vector<PageCopy> copies = {{0, 1, tokens}};
    StepArrays arrays;
    arrays.copies = copies;
    arrays.kv = kv_;
    arrays.pool = pool.data();
    device->begin_step(arrays)->copy_pages(0);
    ASSERT_EQ(0, std::memcmp(pool.data(), want.data(), bytes)) << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(HeadSizes, KvInt8Pages, ::testing::Values(33, 64, 80, 128));

}  // namespace
}  // namespace prefix::ops::testing
