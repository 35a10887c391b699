// Files that are not what they should be: each one is a miss, is removed, is counted, and the page
// can be put again.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "disk_support.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

constexpr size_t kPage = 3000;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class Damage : public testing::Test {
 protected:
  Damage() {
    EXPECT_TRUE(put(tier_, 1, kPage));
    good_ = read_file(path_);
    EXPECT_EQ(good_.size(), kPage + kDiskHeader);
  }
  // The file holds `bytes` now; what becomes of the page?
  void expect_refused(const std::string& bytes) {
    write_file(path_, bytes);
    const uint64_t before = tier_.stats().damaged;
    ASSERT_EQ(get(tier_, 1, kPage), Got::kMiss);
    ASSERT_EQ(tier_.stats().damaged, before + 1);
    ASSERT_FALSE(fs::exists(path_));
    ASSERT_EQ(tier_.stats().pages, 0u);
    ASSERT_EQ(tier_.stats().bytes, 0u);
  }

  TempFolder folder_;
  std::string cache_ = folder_ / "cache";
  DiskTier tier_{options_for(cache_)};
  std::string path_ = file_of(cache_, 1);
  std::string good_;
};

TEST_F(Damage, TheGoodFileIsServed) {
  write_file(path_, good_);
  EXPECT_EQ(get(tier_, 1, kPage), Got::kRight);
}

TEST_F(Damage, AWrongByteAnywhereInTheHeader) {
  std::mt19937 random(1);
  for (size_t at = 0; at < kDiskHeader; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good_;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      expect_refused(bad);
      if (HasFatalFailure()) FAIL() << "offset " << at << ", bit " << bit;
    }
  }
}

TEST_F(Damage, AWrongByteInThePage) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < cases(2000); ++round) {
    std::string bad = good_;
    const size_t at = kDiskHeader + random() % kPage;
    bad[at] = static_cast<char>(bad[at] ^ (1 + random() % 255));
    expect_refused(bad);
    if (HasFatalFailure()) FAIL() << "seed " << seed << ", offset " << at;
  }
}

TEST_F(Damage, AFileOfAnotherLength) {
  for (size_t n = 0; n < good_.size(); n += n < 2 * kDiskHeader ? 1 : 97) {
    expect_refused(good_.substr(0, n));
    if (HasFatalFailure()) FAIL() << n << " bytes";
  }
  expect_refused(good_ + '\0');
  expect_refused(good_ + good_);
}

TEST_F(Damage, BlocksOfZerosAsAfterAPowerFailure) {
  std::string bad = good_;
  std::fill(bad.begin() + 1024, bad.begin() + 2048, '\0');
  expect_refused(bad);
  expect_refused(std::string(good_.size(), '\0'));
}

TEST_F(Damage, ThePageOfAnotherKey) {
  EXPECT_TRUE(put(tier_, 2, kPage));
  const std::string other = read_file(file_of(cache_, 2));
  write_file(path_, other);
  EXPECT_EQ(get(tier_, 1, kPage), Got::kMiss);
  EXPECT_EQ(get(tier_, 2, kPage), Got::kRight);
  EXPECT_EQ(tier_.stats().damaged, 1u);
}

TEST_F(Damage, APageThatIsPutReplacesAFileOfAnotherSize) {
  write_file(path_, good_.substr(0, 100));
  EXPECT_TRUE(put(tier_, 1, kPage));
  EXPECT_EQ(tier_.stats().damaged, 1u);
  EXPECT_EQ(tier_.stats().pages, 1u);
  EXPECT_EQ(get(tier_, 1, kPage), Got::kRight);
}

TEST_F(Damage, ALinkIsNotFollowed) {
  const std::string target = folder_.write("target", good_);
  fs::remove(path_);
  fs::create_symlink(target, path_);
  EXPECT_FALSE(exists(tier_, 1));
  EXPECT_EQ(get(tier_, 1, kPage), Got::kMiss);
  EXPECT_FALSE(fs::exists(fs::symlink_status(path_)));
  EXPECT_EQ(read_file(target), good_);
  EXPECT_TRUE(put(tier_, 1, kPage));
  EXPECT_EQ(get(tier_, 1, kPage), Got::kRight);
}

TEST_F(Damage, ANamedPipeDoesNotHoldAThread) {
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(get(tier_, 1, kPage), Got::kMiss);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Damage, AFolderInThePlaceOfAPage) {
  fs::remove(path_);
  fs::create_directories(path_);
  EXPECT_EQ(get(tier_, 1, kPage), Got::kMiss);
  EXPECT_FALSE(put(tier_, 1, kPage));  // a rename cannot replace it
  EXPECT_TRUE(put(tier_, 2, kPage));
  EXPECT_EQ(get(tier_, 2, kPage), Got::kRight);
}

// Others make room in its place, until the folder is looked through again.
TEST(FullDisk, AFolderInThePlaceOfTheOldestPage) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTier tier(options_for(cache, 3 * (kPage + kDiskHeader)));
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(tier, i, kPage));
  const std::string oldest = cache + "/" + disk_page_name(key_of(0));
  ASSERT_TRUE(fs::remove(oldest));
  fs::create_directories(oldest);
  for (uint64_t i = 3; i < 8; ++i) {
    EXPECT_TRUE(put(tier, i, kPage)) << i;
    EXPECT_EQ(get(tier, i, kPage), Got::kRight) << i;
  }
  // It takes no room itself.
  for (uint64_t i = 5; i < 8; ++i) EXPECT_EQ(get(tier, i, kPage), Got::kRight) << i;
}

// Found at the start, before anybody asked for it: counted as bytes, and removed when it is.
TEST_F(Damage, DamageBetweenTwoRuns) {
  write_file(path_, good_.substr(0, 50));
  DiskTier next(options_for(cache_));
  expect_exact(next, cache_);
  EXPECT_EQ(get(next, 1, kPage), Got::kMiss);
  EXPECT_EQ(next.stats().damaged, 1u);
  expect_exact(next, cache_);
}

// The names of files: nothing but digits of the key, whatever the key is.
TEST(DiskFormat, NamesComeFromTheKeyAndBack) {
  PageKey key;
  for (int i = 0; i < 256; ++i) {
    key.bytes[0] = static_cast<uint8_t>(i);
    key.bytes[31] = static_cast<uint8_t>(255 - i);
    const std::string name = disk_page_name(key);
    ASSERT_EQ(name.size(), 4 + 64 + 5u);
    ASSERT_EQ(name.substr(0, 3), disk_folder_name(i));
    ASSERT_EQ(name.find_first_not_of("0123456789abcdef/.page"), std::string::npos);
    ASSERT_EQ(name.find(".."), std::string::npos);
    ASSERT_EQ(disk_page_of(i, name.substr(4)), key);
    ASSERT_EQ(disk_page_of(i ^ 1, name.substr(4)), std::nullopt);
  }
  const std::string digits(64, '0');
  for (const std::string& name :
       {std::string(), std::string("."), digits, digits + ".pag", digits + ".page ",
        "0" + digits + ".page", std::string(64, 'A') + ".page", "../" + digits.substr(3) + ".page"})
    EXPECT_EQ(disk_page_of(0, name), std::nullopt) << name;
  EXPECT_TRUE(is_disk_temporary(disk_temporary_name(~0ull, 0)));
  EXPECT_FALSE(is_disk_temporary("notes.tmp"));
}

// A file of the first version stays readable: these bytes never change.
TEST(DiskFormat, TheHeaderIsAsItWasWritten) {
  PageKey key;
  for (size_t i = 0; i < 32; ++i) key.bytes[i] = static_cast<uint8_t>(i);
  const DiskHeader header = disk_header(key, std::as_bytes(std::span("abc", 3)));
  std::string hex;
  for (const std::byte byte : header) {
    hex += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  EXPECT_EQ(hex,
            "504658504147450a"
            "01000000"
            "58000000"
            "0300000000000000"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace prefix
