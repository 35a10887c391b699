// A file system that fails: every page is a miss then, the reason is counted and logged once,
// nothing is thrown, nothing half-written is left, and the tier works again when the disk does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "disk_support.h"
#include "support/child_process.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

constexpr size_t kPage = 5000;

constexpr std::array kCalls = {DiskCall::kMakeFolder, DiskCall::kOpen,   DiskCall::kLook,
                               DiskCall::kRead,       DiskCall::kWrite,  DiskCall::kSync,
                               DiskCall::kRename,     DiskCall::kRemove, DiskCall::kList};

// Messages since the last call.
std::vector<std::string> messages() {
  std::vector<std::string> list;
  LogLevel level;
  std::string text;
  while (next_log(SIZE_MAX, &level, &text)) list.push_back(text);
  return list;
}

TEST(DiskFailure, EachCallWithEachErrorIsAMissAndLoggedOnce) {
  for (const int error : {ENOSPC, EIO, EACCES, EROFS, EDQUOT, EMFILE}) {
    for (const DiskCall call : kCalls) {
      SCOPED_TRACE(testing::Message() << "call " << static_cast<int>(call) << ", errno " << error);
      const TempFolder folder;
      const std::string cache = folder / "cache";
      std::atomic<int> fail_call{-1};
      DiskTierOptions options = options_for(cache, 4 * (kPage + kDiskHeader));
      if (call == DiskCall::kSync) options.sync = DiskSync::kAlways;
      options.fault = [&](DiskCall c) { return static_cast<int>(c) == fail_call ? error : 0; };
      DiskTier tier(options);
      for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(tier, i, kPage));
      messages();
      fail_call = static_cast<int>(call);
      for (int again = 0; again < 5; ++again) {
        for (uint64_t i = 0; i < 20; ++i) {
          EXPECT_NE(get(tier, i, kPage), Got::kWrong);
          (void)exists(tier, i);
          (void)put(tier, i, kPage);
        }
      }
      EXPECT_LE(messages().size(), 1u);
      fail_call = -1;
      // As good as new.
      for (uint64_t i = 100; i < 110; ++i) {
        EXPECT_TRUE(put(tier, i, kPage));
        EXPECT_EQ(get(tier, i, kPage), Got::kRight);
      }
      EXPECT_LE(contents_of(cache).bytes, options.cap_bytes);
      const TierStats s = tier.stats();
      EXPECT_EQ(s.hits + s.misses, 5u * 20 + 10);
      EXPECT_EQ(s.stored + s.kept + s.not_stored, 3 + 5u * 20 + 10);
      // A temporary file may stay while files cannot be removed; the next start takes it.
      EXPECT_TRUE(contents_of(cache).temporary == 0 || call == DiskCall::kRemove);
    }
  }
}

// The others make room in its place.
TEST(DiskFailure, AnOldPageThatCannotBeRemovedKeepsNoOther) {
  const TempFolder folder;
  std::atomic<int> failures{1};
  DiskTierOptions options = options_for(folder / "cache", 3 * (kPage + kDiskHeader));
  options.fault = [&](DiskCall call) {
    return call == DiskCall::kRemove && failures-- > 0 ? EACCES : 0;
  };
  DiskTier tier(options);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(tier, i, kPage));
  EXPECT_TRUE(put(tier, 3, kPage));
  EXPECT_EQ(get(tier, 0, kPage), Got::kRight);
  EXPECT_EQ(get(tier, 1, kPage), Got::kMiss);
  // Where none can be removed it ends.
  failures = 1000;
  EXPECT_FALSE(put(tier, 4, kPage));
  EXPECT_GT(failures.load(), 900);
}

// It is not ours, and would otherwise count as used for ever.
TEST(DiskFailure, APageThatMayNotBeReadIsWrittenAgain) {
  const TempFolder folder;
  std::atomic<int> failures{0};
  DiskTierOptions options = options_for(folder / "cache");
  options.fault = [&](DiskCall call) {
    return call == DiskCall::kOpen && failures-- > 0 ? EACCES : 0;
  };
  DiskTier tier(options);
  ASSERT_TRUE(put(tier, 0, kPage));
  failures = 1;
  EXPECT_EQ(get(tier, 0, kPage), Got::kMiss);
  EXPECT_EQ(tier.stats().damaged, 1u);
  EXPECT_TRUE(put(tier, 0, kPage));
  EXPECT_EQ(tier.stats().stored, 2u);
  EXPECT_EQ(get(tier, 0, kPage), Got::kRight);
}

// Pages that a listing did not reach are not gone: they stay in the counts, so that the cap holds.
TEST(DiskFailure, AComparisonThatIsNotCompleteForgetsNoPage) {
  const TempFolder folder;
  constexpr uint64_t kFile = 1000 + kDiskHeader;
  DiskTierOptions options = options_for(folder / "cache", 16 * kFile);
  std::atomic<bool> fails = false;
  std::atomic<int> listings = 0;
  options.fault = [&](DiskCall call) {
    return fails && call == DiskCall::kList && ++listings > 0 ? EIO : 0;
  };
  DiskTier tier(options);
  fails = true;
  // More than an eighth of the cap.
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(put(tier, i, 1000));
  EXPECT_GT(listings, 0) << "there was no comparison";
  EXPECT_EQ(tier.stats().pages, 3u);
  expect_exact(tier, folder / "cache");
}

TEST(DiskFailure, AFolderThatFailsFromTheStart) {
  for (const DiskCall call : kCalls) {
    const TempFolder folder;
    DiskTierOptions options = options_for(folder / "cache");
    options.fault = [&](DiskCall c) { return c == call ? EIO : 0; };
    DiskTier tier(options);
    (void)put(tier, 1, kPage);
    EXPECT_NE(get(tier, 1, kPage), Got::kWrong);
  }
}

TEST(DiskFailure, RandomFailuresNeverGiveWrongPages) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(cases(30)); ++seed) {
    const TempFolder folder;
    const std::string cache = folder / "cache";
    std::mt19937 random(seed);  // one thread draws from it
    DiskTierOptions options = options_for(cache, 10 * (kPage + kDiskHeader));
    options.queue.threads = 1;
    bool failing = true;
    options.fault = [&](DiskCall) { return failing && random() % 20 == 0 ? EIO : 0; };
    {
      DiskTier tier(options);
      for (int step = 0; step < 300; ++step) {
        const uint64_t n = static_cast<uint64_t>(step * 7919 % 30);
        if (step % 2 == 0) {
          (void)put(tier, n, kPage);
        } else {
          ASSERT_NE(get(tier, n, kPage), Got::kWrong) << "seed " << seed;
        }
      }
    }
    failing = false;
    DiskTier tier(options);
    expect_exact(tier, cache);
    EXPECT_LE(tier.stats().bytes, options.cap_bytes) << "seed " << seed;
    for (uint64_t n = 0; n < 30; ++n) ASSERT_NE(get(tier, n, kPage), Got::kWrong) << seed;
  }
}

TEST(DiskFailure, AfterAFailedWriteNothingIsWrittenForAWhile) {
  const TempFolder folder;
  std::atomic<int> writes{0};
  DiskTierOptions options = options_for(folder / "cache");
  options.pause = std::chrono::hours(1);
  options.fault = [&](DiskCall call) { return call == DiskCall::kWrite && ++writes ? ENOSPC : 0; };
  DiskTier tier(options);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_FALSE(put(tier, i, kPage));
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(tier.stats().not_stored, 10u);
  EXPECT_EQ(tier.stats().errors, 1u);
}

TEST(DiskFailure, FoldersThatCannotBeUsed) {
  const TempFolder folder;
  folder.write("file", std::string_view("x"));
  // To everybody, to the group, to the others.
  for (const auto& [name, mode] : {std::pair{"open", 0777}, {"group", 0720}, {"others", 0702}}) {
    fs::create_directory(folder / name);
    chmod((folder / name).c_str(), static_cast<mode_t>(mode));
  }
  messages();
  for (const std::string& path :
       {std::string(), folder / "missing/cache", folder / "file", folder / "open", folder / "group",
        folder / "others", (folder / "cache") + std::string("\0x", 2)}) {
    DiskTier tier(options_for(path));
    EXPECT_FALSE(put(tier, 1, kPage));
    EXPECT_EQ(get(tier, 1, kPage), Got::kMiss);
    EXPECT_FALSE(exists(tier, 1));
    EXPECT_FALSE(tier.problem().empty()) << path;
    EXPECT_EQ(messages().size(), 0u) << path << ": the engine tells its problem";
  }
  for (const char* name : {"open", "group", "others"}) EXPECT_TRUE(fs::is_empty(folder / name));
}

// SIGXFSZ would end the process; the threads of the tier do not take it.
TEST(DiskFailure, AFileSizeLimitDoesNotEndTheProcess) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  const int result = in_child([&] {
    const rlimit limit{3000, 3000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    DiskTier tier(options_for(cache));
    if (put(tier, 1, kPage)) return 2;
    if (get(tier, 1, kPage) != Got::kMiss) return 3;
    if (tier.stats().errors == 0) return 4;
    if (!put(tier, 2, 1000) || get(tier, 2, 1000) != Got::kRight) return 5;
    return 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(contents_of(cache).pages, 1u);
  EXPECT_EQ(contents_of(cache).temporary, 0u);
}

TEST(DiskFailure, AFolderThatMayOnlyBeReadIsRead) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  {
    DiskTier tier(options_for(cache));
    ASSERT_TRUE(put(tier, 1, kPage));
  }
  // Root may write everywhere: become somebody else, whose folder it is.
  constexpr uid_t kNobody = 65534;
  const bool root = geteuid() == 0;
  chmod(folder.path().c_str(), 0755);
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (root && lchown(entry.path().c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no chown";
    chmod(entry.path().c_str(), entry.is_directory() ? 0500 : 0400);
  }
  if (root && lchown(cache.c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no chown";
  chmod(cache.c_str(), 0500);
  const int result = in_child([&] {
    if (root && setresuid(kNobody, kNobody, kNobody) != 0) return 1;
    if (access(cache.c_str(), R_OK | X_OK) != 0) return kNotPermitted;
    DiskTier tier(options_for(cache));
    if (tier.stats().pages != 1) return 2;
    if (get(tier, 1, kPage) != Got::kRight) return 3;
    for (uint64_t i = 2; i < 10; ++i)
      if (put(tier, i, kPage)) return 4;
    if (tier.stats().errors == 0) return 5;
    if (get(tier, 1, kPage) != Got::kRight) return 6;
    return 0;
  });
  chmod(cache.c_str(), 0700);
  for (const auto& entry : fs::recursive_directory_iterator(cache))
    chmod(entry.path().c_str(), 0700);
  if (result == kNotPermitted) GTEST_SKIP() << "the temporary folder is closed to other users";
  EXPECT_EQ(result, 0);
}

TEST(DiskFailure, AFolderOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TempFolder folder;
  const std::string cache = folder / "cache";
  fs::create_directory(cache);
  chmod(cache.c_str(), 0755);
  if (lchown(cache.c_str(), 65534, 65534) != 0) GTEST_SKIP() << "no chown here";
  DiskTier tier(options_for(cache));
  EXPECT_FALSE(put(tier, 1, kPage));
  EXPECT_TRUE(fs::is_empty(cache));
}

// A file system of 256 KB, in a mount namespace that goes with the child.
TEST(DiskFailure, ADiskThatIsReallyFull) {
  const TempFolder folder;
  const std::string disk = folder / "disk";
  fs::create_directory(disk);
  const int result = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=256k,mode=0700") != 0)
      return kNotPermitted;
    messages();
    DiskTier tier(options_for(disk + "/cache"));
    uint64_t stored = 0;
    for (uint64_t i = 0; i < 200; ++i) stored += put(tier, i, kPage) ? 1 : 0;
    if (stored < 10 || stored > 60) return 1;
    if (tier.stats().errors == 0) return 2;
    if (messages().size() > 3) return 3;  // to open, to write, to create a folder
    uint64_t right = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      const Got got = get(tier, i, kPage);
      if (got == Got::kWrong) return 4;
      right += got == Got::kRight ? 1 : 0;
    }
    if (right != stored) return 5;
    const Contents contents = contents_of(disk + "/cache");
    if (contents.temporary != 0) return 6;
    if (contents.bytes != tier.stats().bytes || contents.pages != stored) return 7;
    return 0;
  });
  if (result == kNotPermitted) GTEST_SKIP() << "no permission to mount a small file system";
  EXPECT_EQ(result, 0);
}

// A callback of the host runs when the tier holds none of its locks: other pages go on meanwhile.
TEST(DiskFailure, ACallbackMayWaitForOtherPages) {
  const TempFolder folder;
  DiskTierOptions options = options_for(folder / "cache");
  options.queue.threads = 2;
  std::atomic<bool> fails{false};
  options.fault = [&](DiskCall call) { return fails && call == DiskCall::kRename ? EIO : 0; };
  DiskTier tier(options);
  ASSERT_TRUE(put(tier, 1, kPage));
  struct Host {
    DiskTier& tier;
    std::atomic<int> asked;
  } host{tier, 0};
  set_log_callback(
      [](int32_t, const char*, void* user) {
        Host& h = *static_cast<Host*>(user);
        ++h.asked;
        EXPECT_EQ(get(h.tier, 1, kPage), Got::kRight);
      },
      &host);
  fails = true;
  EXPECT_FALSE(put(tier, 2, kPage));
  set_log_callback(nullptr, nullptr);
  EXPECT_EQ(host.asked, 1);
}

}  // namespace
}  // namespace prefix
