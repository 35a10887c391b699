#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::TempFolder;

std::string text_of(const MappedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

class MappedFileTest : public testing::TestWithParam<FileAccess> {
 protected:
  TempFolder folder_;
};

TEST_P(MappedFileTest, GivesTheBytes) {
  const std::string path = folder_.write("a", std::string_view("hello"));
  const MappedFile file(path, GetParam());
  EXPECT_EQ(text_of(file), "hello");
  EXPECT_EQ(file.path(), path);
  EXPECT_NO_THROW(file.check_size());
}

TEST_P(MappedFileTest, TakesAnEmptyFile) {
  const MappedFile file(folder_.write("a", std::string_view()), GetParam());
  EXPECT_EQ(file.bytes().size(), 0u);
}

TEST_P(MappedFileTest, NamesWhatItCannotOpen) {
  const auto open = [&](const std::string& path) {
    return [path] { MappedFile file(path, GetParam()); };
  };
  expect_error(Code::kNotFound, {folder_ / "absent", "No such file"}, open(folder_ / "absent"));
  expect_error(Code::kIo, {folder_.path(), "not a regular file"}, open(folder_.path()));
  expect_error(Code::kInvalidArgument, {"a\\x00b"}, open(std::string("a\0b", 3)));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_error(Code::kIo, {"pipe", "not a regular file"}, open(folder_ / "pipe"));
  expect_error(Code::kIo, {"/dev/zero", "not a regular file"}, open("/dev/zero"));
}

INSTANTIATE_TEST_SUITE_P(Access, MappedFileTest,
                         testing::Values(FileAccess::kMap, FileAccess::kCopy));

TEST(MappedFile, NoticesThatItWasCutShort) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string(10000, 'x'));
  const MappedFile file(path);
  std::filesystem::resize_file(path, 9999);
  expect_error(Code::kIo, {path, "cut short", "9999 of 10000"}, [&] { file.check_size(); });
}

TEST(MappedFile, ACopyDoesNotCareWhatHappensToTheFile) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string(10000, 'x'));
  const MappedFile file(path, FileAccess::kCopy);
  std::filesystem::resize_file(path, 0);
  EXPECT_NO_THROW(file.check_size());
  EXPECT_EQ(text_of(file), std::string(10000, 'x'));
}

TEST(MappedFile, TakesBytesFromMemory) {
  const MappedFile file("some name", {std::byte{'h'}, std::byte{'i'}});
  EXPECT_EQ(text_of(file), "hi");
  EXPECT_EQ(file.path(), "some name");
  EXPECT_NO_THROW(file.check_size());
}

TEST(ReadTextFile, LimitsTheSize) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string_view("12345"));
  EXPECT_EQ(read_text_file(path, 5), "12345");
  expect_error(Code::kFormat, {path, "5 bytes", "at most 4"}, [&] { read_text_file(path, 4); });
  expect_error(Code::kNotFound, {"absent"}, [&] { read_text_file(folder / "absent", 4); });
}

}  // namespace
}  // namespace prefix
