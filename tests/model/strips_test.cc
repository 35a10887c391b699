// Columns of tensors that are larger than a strip.
#include "model/files/strips.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/status.h"

namespace prefix {
namespace {

// A file without bytes of its own: 32-bit word i is i. It counts what is read.
struct Numbers {
  explicit Numbers(uint64_t bytes)
      : file("numbers", bytes, [this](uint64_t at, size_t count, void* out) {
          if (broken) fail(Code::kIo, "broken");
          read += count;
          for (size_t i = 0; i < count / 4; ++i) {
            const auto word = static_cast<uint32_t>(at / 4 + i);
            std::memcpy(static_cast<std::byte*>(out) + 4 * i, &word, 4);
          }
        }) {}

  bool broken = false;
  uint64_t read = 0;
  InputFile file;
};

Tensor tensor_of(const Numbers& numbers, int64_t rows, int64_t columns, uint64_t offset = 0) {
  Tensor t;
  t.type = TensorType::kI32;
  t.shape = {rows, columns};
  t.file = &numbers.file;
  t.offset = offset;
  t.bytes = static_cast<size_t>(4 * rows * columns);
  return t;
}

// Of a tensor that begins at word `first`.
void expect_column(Strips& strips, const Tensor& t, int64_t column, uint32_t first = 0) {
  const auto rows = static_cast<size_t>(t.shape[0]);
  std::vector<uint32_t> words(rows);
  strips.column(t, column, reinterpret_cast<std::byte*>(words.data()));
  for (size_t row = 0; row < rows; ++row)
    ASSERT_EQ(words[row],
              first + row * static_cast<size_t>(t.shape[1]) + static_cast<size_t>(column));
}

constexpr int64_t kRows = 1 << 15;                        // 128 KiB a column
constexpr int64_t kWidth = Strips::kBytes / (4 * kRows);  // columns of a strip

TEST(Strips, ReadsEachColumnOnce) {
  constexpr int64_t kColumns = 3 * kWidth + 5;
  Numbers numbers(4 * kRows * kColumns);
  const Tensor t = tensor_of(numbers, kRows, kColumns);
  Strips strips;
  for (int64_t column = 0; column < kColumns; ++column) expect_column(strips, t, column);
  EXPECT_EQ(numbers.read, t.bytes);
  for (const int64_t column : {kColumns - 1, int64_t{0}, kWidth, kWidth - 1})
    expect_column(strips, t, column);
  EXPECT_EQ(numbers.read, t.bytes);
  std::vector<std::byte> out(4 * kRows);
  EXPECT_THROW(strips.column(t, kColumns, out.data()), Error);
  EXPECT_THROW(strips.column(t, -1, out.data()), Error);
}

TEST(Strips, KeepsTheOnesUsedLast) {
  constexpr auto kKept = static_cast<int64_t>(Strips::kKept);
  Numbers numbers(4 * kRows * kWidth * (kKept + 1));
  const Tensor t = tensor_of(numbers, kRows, kWidth * (kKept + 1));
  Strips strips;
  for (int64_t i = 0; i < kKept; ++i) expect_column(strips, t, i * kWidth);
  expect_column(strips, t, 0);  // the second is the oldest now
  const uint64_t before = numbers.read;
  expect_column(strips, t, kKept * kWidth);
  EXPECT_EQ(numbers.read - before, uint64_t{Strips::kBytes});
  expect_column(strips, t, 0);
  EXPECT_EQ(numbers.read - before, uint64_t{Strips::kBytes});
  expect_column(strips, t, kWidth);
  EXPECT_EQ(numbers.read - before, 2 * uint64_t{Strips::kBytes});
}

TEST(Strips, TellsTensorsApart) {
  Numbers numbers(4 * 64);
  Strips strips;
  expect_column(strips, tensor_of(numbers, 4, 8), 3);
  expect_column(strips, tensor_of(numbers, 4, 8, 4 * 32), 3, 32);
  Numbers others(4 * 64);
  expect_column(strips, tensor_of(others, 4, 8), 3);
  EXPECT_EQ(others.read, 4u * 32);
}

TEST(Strips, ForgetsWhatItCouldNotRead) {
  Numbers numbers(4 * 32);
  const Tensor t = tensor_of(numbers, 4, 8);
  Strips strips;
  numbers.broken = true;
  std::vector<std::byte> out(16);
  EXPECT_THROW(strips.column(t, 0, out.data()), Error);
  numbers.broken = false;
  expect_column(strips, t, 0);
  // A column longer than a strip is one.
  constexpr int64_t kLong = Strips::kBytes;
  Numbers tall(4 * 2 * kLong);
  expect_column(strips, tensor_of(tall, kLong, 2), 1);
}

}  // namespace
}  // namespace prefix
