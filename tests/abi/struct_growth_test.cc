// Rule 4 of prefix.h between two releases: a struct that has grown, with a program and a library of
// different age. Every struct of the header has one layout so far, so these are made up; this test
// is inside the library, where the templates are.
//
//   Old:     struct_size  a  b
//   Middle:  struct_size  a  b  c
//   New:     struct_size  a  b  c  d
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "abi/entry.h"

namespace prefix::abi {
namespace {

struct Old {
  int32_t struct_size, a;
  int64_t b;
};
struct Middle {
  int32_t struct_size, a;
  int64_t b, c;
};
struct New {
  int32_t struct_size, a;
  int64_t b, c, d;
};

constexpr unsigned char kUntouched = 0x5a;

// The memory of a program that has a struct of `size` bytes, and more behind it.
template <typename Library>
struct Program {
  alignas(8) std::array<unsigned char, 64> bytes;

  explicit Program(int32_t size) {
    bytes.fill(kUntouched);
    std::memcpy(bytes.data(), &size, sizeof(size));
  }
  // The struct as the library knows it.
  Library* out() { return reinterpret_cast<Library*>(bytes.data()); }
  template <typename Field>
  Field at(size_t offset) const {
    Field field;
    std::memcpy(&field, bytes.data() + offset, sizeof(field));
    return field;
  }
  void expect_untouched_from(size_t offset) const {
    for (size_t i = offset; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], kUntouched) << "byte " << i;
  }
};

TEST(StructGrowth, ANewLibraryFillsWhatAnOldProgramHasRoomFor) {
  Program<New> old(sizeof(Old));
  struct_out(New{0, 1, 2, 3, 4}, old.out(), sizeof(Old));
  EXPECT_EQ(old.at<int32_t>(0), static_cast<int32_t>(sizeof(Old))) << "it stays the caller's";
  EXPECT_EQ(old.at<int32_t>(offsetof(Old, a)), 1);
  EXPECT_EQ(old.at<int64_t>(offsetof(Old, b)), 2);
  old.expect_untouched_from(sizeof(Old));

  Program<New> middle(sizeof(Middle));
  struct_out(New{0, 1, 2, 3, 4}, middle.out(), sizeof(Old));
  EXPECT_EQ(middle.at<int64_t>(offsetof(Middle, b)), 2);
  EXPECT_EQ(middle.at<int64_t>(offsetof(Middle, c)), 3);
  middle.expect_untouched_from(sizeof(Middle));
}

TEST(StructGrowth, AnOldLibraryLeavesWhatANewProgramHasBesides) {
  Program<Old> program(sizeof(New));
  struct_out(Old{0, 1, 2}, program.out());
  EXPECT_EQ(program.at<int32_t>(0), static_cast<int32_t>(sizeof(New))) << "it stays the caller's";
  EXPECT_EQ(program.at<int32_t>(offsetof(New, a)), 1);
  EXPECT_EQ(program.at<int64_t>(offsetof(New, b)), 2);
  program.expect_untouched_from(sizeof(Old));
}

TEST(StructGrowth, LibraryAndProgramOfTheSameAge) {
  Program<New> program(sizeof(New));
  struct_out(New{0, 1, 2, 3, 4}, program.out(), sizeof(Old));
  EXPECT_EQ(program.at<int64_t>(offsetof(New, d)), 4);
  program.expect_untouched_from(sizeof(New));
}

TEST(StructGrowth, SmallerThanTheFirstLayoutIsTooOld) {
  for (const int32_t size : {int32_t{sizeof(Old)} - 1, 4, 0, -1}) {
    Program<New> program(size);
    try {
      struct_out(New{0, 1, 2, 3, 4}, program.out(), sizeof(Old));
      FAIL() << size << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kStructTooOld);
      EXPECT_NE(error.message().find(std::to_string(sizeof(Old))), std::string::npos)
          << error.message();
    }
    EXPECT_EQ(program.at<int32_t>(0), size);
    program.expect_untouched_from(sizeof(int32_t));
  }
}

}  // namespace
}  // namespace prefix::abi
