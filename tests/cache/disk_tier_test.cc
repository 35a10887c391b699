// What the disk tier promises when nothing is wrong: pages come back, the cap holds, the folder and
// the counts agree, and several tiers can share a folder.
#include "cache/disk_tier.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "disk_support.h"
#include "support/temp_folder.h"
#include "system_calls.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

constexpr uint64_t kPage = 1000;
constexpr uint64_t kFile = kPage + kDiskHeader;

mode_t mode_of(const std::string& path) {
  struct stat info;
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

void set_last_use(const std::string& path, int64_t seconds) {
  const timespec times[2] = {{0, UTIME_OMIT}, {seconds, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(DiskTier, PagesComeBack) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache"));
  // The last is large enough for several calls of write on some systems.
  const std::vector<size_t> sizes = {0, 1, 7, 88, 4096, 10000, 3 << 20};
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_FALSE(exists(tier, i));
    EXPECT_EQ(get(tier, i, sizes[i]), Got::kMiss);
    EXPECT_TRUE(put(tier, i, sizes[i]));
    EXPECT_TRUE(exists(tier, i));
    EXPECT_EQ(get(tier, i, sizes[i]), Got::kRight) << sizes[i];
  }
  const TierStats s = tier.stats();
  EXPECT_EQ(s.hits, sizes.size());
  EXPECT_EQ(s.misses, sizes.size());
  EXPECT_EQ(s.stored, sizes.size());
  EXPECT_EQ(s.errors + s.damaged + s.evicted + s.refused + s.not_stored + s.kept, 0u);
  expect_exact(tier, folder / "cache");
}

TEST(DiskTier, ABatchIsHitOrMissPageByPage) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache"));
  std::vector<PageKey> keys;
  std::vector<PageBlob> blobs;
  std::vector<PageBuffer> buffers;
  for (uint64_t i = 0; i < 100; ++i) {
    keys.push_back(key_of(i));
    blobs.push_back(blob_of(page_of(i, kPage)));
    buffers.push_back(buffer_of(kPage));
  }
  finish(tier.put(std::span(keys).first(60), std::span(blobs).first(60)));
  const TicketPtr there = tier.exists(keys);
  const TicketPtr got = tier.get(keys, buffers);
  finish(there);
  finish(got);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(there->hit(i), i < 60);
    ASSERT_EQ(got->hit(i), i < 60);
    if (i < 60) {
      EXPECT_EQ(std::memcmp(buffers[i].data.get(), page_of(i, kPage).data(), kPage), 0);
    }
  }
  expect_exact(tier, folder / "cache");
}

TEST(DiskTier, APageThatIsThereIsNotWrittenAgain) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache"));
  EXPECT_TRUE(put(tier, 1, kPage));
  EXPECT_TRUE(put(tier, 1, kPage));
  EXPECT_EQ(tier.stats().stored, 1u);
  EXPECT_EQ(tier.stats().kept, 1u);
  EXPECT_EQ(tier.stats().bytes_written, kPage);
  expect_exact(tier, folder / "cache");
}

TEST(DiskTier, ASizeThatIsNotThePagesIsAMiss) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache"));
  EXPECT_TRUE(put(tier, 1, kPage));
  EXPECT_EQ(get(tier, 1, kPage - 1), Got::kMiss);
  EXPECT_EQ(tier.stats().damaged, 1u);
  EXPECT_TRUE(put(tier, 1, kPage + 1));
  EXPECT_TRUE(put(tier, 1, kPage));  // takes its place
  EXPECT_EQ(get(tier, 1, kPage), Got::kRight);
  expect_exact(tier, folder / "cache");
}

TEST(DiskTier, ANextProcessFindsThePages) {
  const TempFolder folder;
  for (const DiskSync sync : {DiskSync::kNever, DiskSync::kAlways}) {
    DiskTierOptions options = options_for(folder / "cache");
    options.sync = sync;
    const uint64_t first = sync == DiskSync::kNever ? 0 : 50;
    {
      DiskTier tier(options);
      for (uint64_t i = first; i < first + 20; ++i) EXPECT_TRUE(put(tier, i, kPage));
    }
    DiskTier tier(options);
    expect_exact(tier, folder / "cache");
    for (uint64_t i = first; i < first + 20; ++i) EXPECT_EQ(get(tier, i, kPage), Got::kRight);
  }
}

// The page before it has its name, and the name before it counts as stored.
TEST(DiskTier, APageIsSyncedBeforeItIsSeenWhereThatIsWanted) {
  const TempFolder folder;
  using Calls = std::vector<SystemCalls::Call>;
  constexpr SystemCalls::Call kWrite{SystemCall::kWrite, false},
      kRename{SystemCall::kRename, false};
  constexpr SystemCalls::Call kFile{SystemCall::kSync, false}, kFolder{SystemCall::kSync, true};
  for (const DiskSync sync : {DiskSync::kNever, DiskSync::kAlways}) {
    DiskTierOptions options = options_for(folder / "cache");
    options.sync = sync;
    DiskTier tier(options);
    EXPECT_TRUE(put(tier, 1, kPage));
    EXPECT_TRUE(put(tier, 2, kPage + 1));  // its folder is there or not
    const uint64_t number = sync == DiskSync::kNever ? 3 : 4;
    fs::create_directories(fs::path(file_of(folder / "cache", number)).parent_path());
    SystemCalls calls;
    EXPECT_TRUE(put(tier, number, kPage));
    EXPECT_EQ(calls.seen(), sync == DiskSync::kNever ? (Calls{kWrite, kRename})
                                                     : (Calls{kWrite, kFile, kRename, kFolder}));
  }
}

TEST(DiskTier, AWriteMayDoLessThanItIsAskedTo) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache"));
  SystemCalls calls;
  calls.write_at_most(7);  // in the header, across its end, in the page
  EXPECT_TRUE(put(tier, 1, kPage));
  EXPECT_EQ(get(tier, 1, kPage), Got::kRight);
  EXPECT_GT(calls.seen().size(), kPage / 7);
}

TEST(DiskTier, APageThatCannotBeSyncedIsNotStored) {
  const TempFolder folder;
  DiskTierOptions options = options_for(folder / "cache");
  options.sync = DiskSync::kAlways;
  DiskTier tier(options);
  {
    SystemCalls calls;
    calls.fail(SystemCall::kSync, EIO);
    EXPECT_FALSE(put(tier, 1, kPage));
  }
  EXPECT_FALSE(exists(tier, 1));
  EXPECT_GT(tier.stats().errors, 0u);
  expect_exact(tier, folder / "cache");
  EXPECT_TRUE(put(tier, 1, kPage));
}

TEST(DiskTier, FoldersAndFilesAreForTheUserAlone) {
  const TempFolder folder;
  const mode_t before = umask(0);
  {
    DiskTier tier(options_for(folder / "cache"));
    EXPECT_TRUE(put(tier, 1, kPage));
  }
  umask(before);
  int seen = 0;
  EXPECT_EQ(mode_of(folder / "cache"), 0700u);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "cache")) {
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 0700u : 0600u) << entry.path();
    ++seen;
  }
  EXPECT_EQ(seen, 4);  // tmp, two levels, the page
}

TEST(DiskTier, TheCapHoldsAndTheOldestGoFirst) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache", 10 * kFile));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(put(tier, i, kPage));
  EXPECT_EQ(tier.stats().bytes, 10 * kFile);
  EXPECT_EQ(get(tier, 0, kPage), Got::kRight);  // used by a get
  EXPECT_TRUE(put(tier, 1, kPage));             // and by a put of what is there
  EXPECT_TRUE(exists(tier, 2));                 // a look is no use
  for (uint64_t i = 10; i < 15; ++i) {
    EXPECT_TRUE(put(tier, i, kPage));
    EXPECT_LE(contents_of(folder / "cache").bytes, 10 * kFile);
  }
  const std::set<uint64_t> gone = {2, 3, 4, 5, 6};
  for (uint64_t i = 0; i < 15; ++i) EXPECT_EQ(exists(tier, i), !gone.contains(i)) << i;
  EXPECT_EQ(tier.stats().evicted, 5u);
  expect_exact(tier, folder / "cache");
}

// Calls about many pages, the first of which the others are worth nothing without.
struct DiskTierPaths : testing::Test {
  static DiskTierOptions options(const TempFolder& folder) {
    DiskTierOptions options = options_for(folder / "cache", 10 * kFile);
    options.queue.threads = 1;  // two would make room for two pages at once
    return options;
  }
  static std::vector<PageKey> keys(uint64_t count) {
    std::vector<PageKey> keys;
    for (uint64_t i = 0; i < count; ++i) keys.push_back(key_of(i));
    return keys;
  }
  // Of pages 0, 1, ..., which were put one after the other, the last ones go first.
  static void expect_the_last_go_first(Tier& tier) {
    for (uint64_t gone = 1; gone <= 9; ++gone) {
      EXPECT_TRUE(put(tier, 100 + gone, kPage));
      for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(exists(tier, i), i < 10 - gone) << gone;
    }
  }
};

TEST_F(DiskTierPaths, OfOneThatIsLargerThanTheFolderTheBeginningStays) {
  const TempFolder folder;
  DiskTier tier(options(folder));
  std::vector<PageBlob> blobs;
  for (uint64_t i = 0; i < 15; ++i) blobs.push_back(blob_of(page_of(i, kPage)));
  finish(tier.put(keys(15), blobs));
  for (uint64_t i = 0; i < 15; ++i) EXPECT_EQ(exists(tier, i), i < 9 || i == 14) << i;
  expect_exact(tier, folder / "cache");
}

TEST_F(DiskTierPaths, OfOneThatWasReadTheEndGoesFirst) {
  const TempFolder folder;
  DiskTier tier(options(folder));
  std::vector<PageBuffer> buffers;
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(put(tier, i, kPage));
    buffers.push_back(buffer_of(kPage));
  }
  finish(tier.get(keys(10), buffers));
  expect_the_last_go_first(tier);
}

TEST_F(DiskTierPaths, OfOneThatWasWrittenAgainTheEndGoesFirst) {
  const TempFolder folder;
  DiskTier tier(options(folder));
  std::vector<PageBlob> blobs;
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(put(tier, i, kPage));
    blobs.push_back(blob_of(page_of(i, kPage)));
  }
  finish(tier.put(keys(10), blobs));
  EXPECT_EQ(tier.stats().kept, 10u);
  expect_the_last_go_first(tier);
}

TEST_F(DiskTierPaths, OfOneThatIsInUseTheEndGoesFirst) {
  const TempFolder folder;
  {
    DiskTier tier(options(folder));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(put(tier, i, kPage));
    finish(tier.use(keys(12)));
    const TierStats s = tier.stats();
    EXPECT_EQ(s.hits + s.misses + s.kept + s.not_stored + s.bytes_read, 0u);
    EXPECT_EQ(s.stored, 10u);
    expect_exact(tier, folder / "cache");
  }
  DiskTier tier(options(folder));  // the next process sees it
  expect_the_last_go_first(tier);
}

// Gets go first, and what one of them used last is what a next process must see.
TEST(DiskTier, APutThatWaitedMakesNoPageOlder) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  std::promise<void> queued;
  std::atomic<bool> held{false};
  DiskTierOptions options = options_for(cache);
  options.queue.threads = 1;
  options.fault = [&, go = queued.get_future().share()](DiskCall call) {
    if (call == DiskCall::kLook && held.exchange(false)) go.wait();
    return 0;
  };
  DiskTier tier(std::move(options));
  for (uint64_t i = 0; i < 2; ++i) EXPECT_TRUE(put(tier, i, kPage));
  const PageKey pages[] = {key_of(0), key_of(1)};
  const PageBlob blob = blob_of(page_of(0, kPage));
  const PageBuffer buffers[] = {buffer_of(kPage), buffer_of(kPage)};
  held = true;
  const TicketPtr holds = tier.exists({pages, 1});
  const TicketPtr late = tier.put({pages, 1}, {&blob, 1});
  const TicketPtr used[] = {tier.get({pages + 1, 1}, {buffers + 1, 1}),
                            tier.get({pages, 1}, {buffers, 1})};
  queued.set_value();
  for (const TicketPtr& ticket : {holds, used[0], used[1], late}) finish(ticket);
  EXPECT_EQ(tier.stats().kept, 1u);
  EXPECT_GT(fs::last_write_time(file_of(cache, 0)), fs::last_write_time(file_of(cache, 1)));
}

TEST(DiskTier, RecencyOutlivesTheProcess) {
  const TempFolder folder;
  {
    DiskTier tier(options_for(folder / "cache"));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(put(tier, i, kPage));
    EXPECT_EQ(get(tier, 3, kPage), Got::kRight);
    EXPECT_EQ(get(tier, 0, kPage), Got::kRight);
  }
  {
    DiskTier tier(options_for(folder / "cache", 5 * kFile));  // a smaller cap, at once
    expect_exact(tier, folder / "cache");
    EXPECT_EQ(tier.stats().evicted, 5u);
    const std::set<uint64_t> left = {7, 8, 9, 3, 0};
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(exists(tier, i), left.contains(i)) << i;
    EXPECT_TRUE(put(tier, 20, kPage));
    EXPECT_FALSE(exists(tier, 7));
  }
}

TEST(DiskTier, ATimeInTheFutureKeepsNothingForEver) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  {
    DiskTier tier(options_for(cache));
    for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(put(tier, i, kPage));
    for (uint64_t i = 0; i < 3; ++i) set_last_use(file_of(cache, i), 4102444800);  // in 2100
  }
  DiskTier tier(options_for(cache, 3 * kFile));
  for (uint64_t i = 10; i < 13; ++i) EXPECT_TRUE(put(tier, i, kPage));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(exists(tier, i));
  // Nor does one that appears while the tier runs make eviction go round in circles.
  for (uint64_t i = 10; i < 13; ++i) set_last_use(file_of(cache, i), 4102444800);
  EXPECT_TRUE(put(tier, 20, kPage));
  EXPECT_EQ(tier.stats().pages, 3u);
  expect_exact(tier, cache);
  // And who has it again says when that was.
  set_last_use(file_of(cache, 20), 4102444800);
  EXPECT_TRUE(put(tier, 20, kPage));
  EXPECT_LT(fs::last_write_time(file_of(cache, 20)),
            fs::file_time_type::clock::now() + std::chrono::hours(1));
}

TEST(DiskTier, APageAboveTheCapIsRefusedAndNothingGoesForIt) {
  const TempFolder folder;
  DiskTier tier(options_for(folder / "cache", 3 * kFile));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(put(tier, i, kPage));
  EXPECT_FALSE(put(tier, 9, 3 * kFile));
  EXPECT_EQ(tier.stats().too_large, 1u);
  EXPECT_EQ(tier.stats().pages, 3u);
  EXPECT_EQ(tier.stats().errors, 0u);
}

TEST(DiskTier, LeftoversGoButNotTheFilesOfLivingWriters) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  {
    DiskTier tier(options_for(cache));
  }
  const std::string leftover = cache + "/tmp/" + disk_temporary_name(1, 2);
  const std::string living = cache + "/tmp/" + disk_temporary_name(3, 4);
  const std::string foreign = cache + "/tmp/notes.txt";
  for (const std::string& path : {leftover, living, foreign}) std::ofstream(path) << "half a page";
  const Descriptor writer(open(living.c_str(), O_WRONLY));
  ASSERT_EQ(flock(*writer, LOCK_EX), 0);
  set_last_use(living, 1);  // long ago: its age must not count
  {
    DiskTier tier(options_for(cache));
  }
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST(DiskTier, WhereFilesCannotBeLockedTheirAgeSaysWhatIsALeftover) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  SystemCalls calls;
  calls.no_locks();
  {
    DiskTier tier(options_for(cache));
    EXPECT_TRUE(put(tier, 1, kPage));
  }
  const std::string old = cache + "/tmp/" + disk_temporary_name(1, 2);
  const std::string young = cache + "/tmp/" + disk_temporary_name(3, 4);
  for (const std::string& path : {old, young}) std::ofstream(path) << "half a page";
  const std::time_t now = std::time(nullptr);
  set_last_use(old, now - 3700);
  set_last_use(young, now - 3000);
  DiskTier tier(options_for(cache));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_EQ(get(tier, 1, kPage), Got::kRight);
  EXPECT_EQ(tier.stats().errors, 0u);
}

// What comes into its place is not looked at: nobody has asked whether others may write to it.
TEST(DiskTier, AFolderThatIsRenamedStaysTheFolder) {
  const TempFolder folder;
  const std::string cache = folder / "cache", moved = folder / "moved", other = folder / "other";
  DiskTier tier(options_for(cache));
  EXPECT_TRUE(put(tier, 1, kPage));
  fs::rename(cache, moved);
  fs::create_directory(other);
  fs::create_directory_symlink(other, cache);
  EXPECT_TRUE(put(tier, 2, kPage));
  EXPECT_EQ(get(tier, 1, kPage), Got::kRight);
  expect_exact(tier, moved);
  EXPECT_TRUE(fs::is_empty(other));
}

TEST(DiskTier, LeavesForeignFilesAlone) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  {
    DiskTier tier(options_for(cache));
    EXPECT_TRUE(put(tier, 1, kPage));
  }
  const std::string page = fs::path(file_of(cache, 1)).filename();
  const std::string other = disk_page_name(key_of(1)).starts_with("0/0") ? "0/1" : "0/0";
  fs::create_directories(cache + "/" + other);
  const std::vector<std::string> foreign = {
      cache + "/notes.txt", cache + "/" + other + "/notes.txt",
      cache + "/" + other + "/" + page,  // a page that does not belong in this folder
      cache + "/" + other + "/" + std::string(64, 'g') + ".page"};
  for (const std::string& path : foreign) std::ofstream(path) << "mine";
  DiskTier tier(options_for(cache, kFile));
  EXPECT_EQ(tier.stats().pages, 1u);
  EXPECT_EQ(tier.stats().bytes, kFile);
  for (uint64_t i = 2; i < 20; ++i) EXPECT_TRUE(put(tier, i, kPage));
  for (const std::string& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(DiskTier, TwoTiersShareAFolder) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTier one(options_for(cache));
  DiskTier two(options_for(cache));
  EXPECT_TRUE(put(one, 1, kPage));
  EXPECT_TRUE(exists(two, 1));
  EXPECT_EQ(get(two, 1, kPage), Got::kRight);
  EXPECT_EQ(two.stats().pages, 1u);  // adopted
  EXPECT_TRUE(put(two, 1, kPage));
  EXPECT_EQ(two.stats().kept, 1u);
  fs::remove(file_of(cache, 1));
  EXPECT_FALSE(exists(one, 1));
  EXPECT_EQ(get(two, 1, kPage), Got::kMiss);
  EXPECT_EQ(two.stats().pages, 0u);
  EXPECT_TRUE(put(one, 1, kPage));  // its index says the page is there; the folder is asked
  EXPECT_EQ(one.stats().stored, 2u);
  EXPECT_EQ(one.stats().errors + two.stats().errors, 0u);
}

TEST(DiskTier, WhatAnotherProcessUsesStays) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTier one(options_for(cache, 4 * kFile));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(put(one, i, kPage));
  {
    DiskTier two(options_for(cache, 4 * kFile));
    EXPECT_EQ(get(two, 0, kPage), Got::kRight);
  }
  EXPECT_TRUE(put(one, 10, kPage));
  EXPECT_TRUE(exists(one, 0));
  EXPECT_FALSE(exists(one, 1));
}

TEST(DiskTier, EvictionOfAPageThatIsGoneIsNoError) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTier tier(options_for(cache, 4 * kFile));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(put(tier, i, kPage));
  for (uint64_t i = 0; i < 3; ++i) fs::remove(file_of(cache, i));
  EXPECT_TRUE(put(tier, 10, kPage));
  EXPECT_EQ(tier.stats().evicted, 0u);
  EXPECT_EQ(tier.stats().errors, 0u);
  EXPECT_TRUE(exists(tier, 3));
}

// Each tier knows its own pages only until it compares with the folder, after an eighth of the cap.
TEST(DiskTier, TheCapHoldsForAllTiersTogether) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  constexpr uint64_t kCap = 80 * kFile;
  DiskTier one(options_for(cache, kCap));
  DiskTier two(options_for(cache, kCap));
  DiskTier three(options_for(cache, kCap));
  uint64_t most = 0;
  uint64_t number = 0;
  for (int round = 0; round < 150; ++round) {
    for (DiskTier* tier : {&one, &two, &three}) EXPECT_TRUE(put(*tier, number++, kPage));
    most = std::max(most, contents_of(cache).bytes);
  }
  EXPECT_LE(most, kCap + 3 * (kCap / 8 + kFile));
  EXPECT_GE(most, kCap);
}

TEST(DiskTier, ABrokenFolderOfPagesIsMadeAgain) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  DiskTier tier(options_for(cache));
  EXPECT_TRUE(put(tier, 1, kPage));
  fs::remove_all(cache + "/tmp");
  fs::remove_all(cache + "/" + disk_page_name(key_of(1)).substr(0, 1));
  EXPECT_EQ(get(tier, 1, kPage), Got::kMiss);
  EXPECT_TRUE(put(tier, 1, kPage));
  EXPECT_EQ(get(tier, 1, kPage), Got::kRight);
  expect_exact(tier, cache);
}

}  // namespace
}  // namespace prefix
