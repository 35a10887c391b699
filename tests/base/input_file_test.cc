#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::TempFolder;

std::string text_of(const InputFile& file, uint64_t at, size_t count) {
  std::string text(count, '?');
  file.read(at, count, text.data());
  return text;
}

class InputFileTest : public testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(InputFileTest, GivesTheBytes) {
  const std::string path = folder_.write("a", std::string_view("hello"));
  const InputFile file(path);
  EXPECT_EQ(file.size(), 5u);
  EXPECT_EQ(file.name(), '"' + path + '"');
  EXPECT_EQ(text_of(file, 0, 5), "hello");
  EXPECT_EQ(text_of(file, 1, 3), "ell");
  EXPECT_EQ(text_of(file, 5, 0), "");
  EXPECT_NO_THROW(file.check_unchanged());
}

TEST_F(InputFileTest, TakesAnEmptyFile) {
  const InputFile file(folder_.write("a", std::string_view()));
  EXPECT_EQ(file.size(), 0u);
  EXPECT_NO_THROW(file.read(0, 0, nullptr));
}

TEST_F(InputFileTest, TakesBytesFromMemory) {
  const InputFile file("some name", {std::byte{'h'}, std::byte{'i'}});
  EXPECT_EQ(text_of(file, 0, 2), "hi");
  EXPECT_EQ(file.name(), "\"some name\"");
  EXPECT_NO_THROW(file.check_unchanged());
}

TEST_F(InputFileTest, NamesWhatItCannotOpen) {
  const auto opening = [](const std::string& path) { return [path] { InputFile file(path); }; };
  expect_error(Code::kNotFound, {folder_ / "absent"}, opening(folder_ / "absent"));
  expect_error(Code::kIo, {folder_.path(), "not a regular file"}, opening(folder_.path()));
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error(Code::kIo, {pipe, "not a regular file"}, opening(pipe));
  expect_error(Code::kInvalidArgument, {"zero byte"}, opening(std::string("a\0b", 3)));
  expect_error(Code::kNotFound, {"\\x1b[2J"}, opening(folder_ / "\x1b[2J"));
}

TEST_F(InputFileTest, SaysThatItWasCutShort) {
  const std::string path = folder_.write("a", std::string(10000, 'x'));
  const InputFile file(path);
  EXPECT_EQ(text_of(file, 9999, 1), "x");
  std::filesystem::resize_file(path, 4097);
  EXPECT_EQ(text_of(file, 0, 4097), std::string(4097, 'x')) << "what is left is read";
  for (const uint64_t at : {0, 4096, 4097, 9999})
    expect_error(Code::kIo, {path, "cut short", "had 10000 bytes", "has 4097 now"},
                 [&] { text_of(file, at, 10000 - at); });
  expect_error(Code::kIo, {path, "had 10000 bytes", "has 4097 now"},
               [&] { file.check_unchanged(); });
}

TEST_F(InputFileTest, NoticesThatItWasWrittenTo) {
  const std::string path = folder_.write("a", std::string(100, 'x'));
  const InputFile file(path);
  const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(2);
  std::filesystem::last_write_time(path, later);
  EXPECT_EQ(text_of(file, 99, 1), "x");
  expect_error(Code::kIo, {path, "written to"}, [&] { file.check_unchanged(); });
}

// A new file under the same name is not the file that was opened.
TEST_F(InputFileTest, AReplacedFileIsReadToItsEnd) {
  const std::string path = folder_.write("a", std::string_view("old"));
  const InputFile file(path);
  std::filesystem::rename(folder_.write("b", std::string_view("n")), path);
  EXPECT_EQ(text_of(file, 0, 3), "old");
  EXPECT_NO_THROW(file.check_unchanged());
}

TEST_F(InputFileTest, ReadsTextWithALimit) {
  const std::string path = folder_.write("a", std::string_view("12345"));
  EXPECT_EQ(read_text(InputFile(path), 5), "12345");
  expect_error(Code::kFormat, {path, "5 bytes", "at most 4"},
               [&] { read_text(InputFile(path), 4); });
  // The kernel says 4096 for it, and gives less: to a reader it is a file cut after it was opened.
  const std::string short_one = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (std::filesystem::exists(short_one))
    expect_error(Code::kIo, {short_one, "cut short", "had 4096 bytes"},
                 [&] { read_text(InputFile(short_one), 8192); });
}

}  // namespace
}  // namespace prefix
