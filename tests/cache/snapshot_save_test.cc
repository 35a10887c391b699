// Saving a snapshot when something goes wrong: whoever reads the path finds the old file or the new
// one, whole, and nothing is left beside it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "snapshot_support.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "system_calls.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

constexpr uint64_t kPage = 4096;

// The index of generation `number`, by which a file is known again.
SnapshotIndex generation(unsigned number) {
  std::mt19937 random(number);
  SnapshotIndex index = random_index(random, 8);
  index.namespaces.push_back({"generation", std::to_string(number)});
  return index;
}

// The number of the whole and right generation in the file; -1: it is none.
int generation_in(const std::string& path) {
  try {
    const SnapshotReader file(path, shape_of(kPage));
    if (file.index().namespaces.empty() || file.index().namespaces.back().size() != 2) return -1;
    const int number = std::stoi(file.index().namespaces.back()[1]);
    const SnapshotPages pages = read_pages(file, kPage);
    const bool right = same(file.index(), generation(static_cast<unsigned>(number))) &&
                       pages.right > 0 && pages.damaged + pages.wrong == 0;
    return right ? number : -1;
  } catch (const Error& e) {
    return -1;
  }
}

// kOk, or why it was not saved.
Code save(const std::string& path, unsigned number) {
  try {
    write_snapshot(path, shape_of(kPage), generation(number));
    return Code::kOk;
  } catch (const Error& e) {
    return e.code();
  }
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(SnapshotSave, WhatIsNotFinishedWasNeverThere) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  {
    const SnapshotWriter file(path, shape_of(kPage), generation(1));
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
  ASSERT_EQ(save(path, 1), Code::kOk);
  {
    SnapshotWriter file(path, shape_of(kPage), generation(2));
    file.add_page(snapshot_page(0, 0, kPage));
  }
  EXPECT_EQ(generation_in(path), 1);
  EXPECT_EQ(files_in(folder.path()), 1u);
  // Prompts are in it.
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(SnapshotSave, TakesThePlaceOfFilesOnly) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe", below = folder / "folder", link = folder / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_directory(below);
  EXPECT_EQ(save(pipe, 1), Code::kInvalidArgument);
  EXPECT_EQ(save(below, 1), Code::kInvalidArgument);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_directory(below));
  EXPECT_EQ(files_in(folder.path()), 2u);
  fs::create_symlink(pipe, link);
  EXPECT_EQ(save(link, 1), Code::kOk) << "the link is replaced, not what it names";
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(SnapshotSave, TheSecondOfTwoWritersIsRefused) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  ASSERT_EQ(save(path, 1), Code::kOk);
  {
    const SnapshotWriter first(path, shape_of(kPage), generation(2));
    expect_error(Code::kMisuse, {"another", "snapshot"},
                 [&] { SnapshotWriter(path, shape_of(kPage), generation(3)); });
    EXPECT_EQ(in_child([&] { return save(path, 3) == Code::kMisuse ? 0 : 1; }), 0);
    EXPECT_EQ(save(path + "2", 3), Code::kOk) << "another path";
    EXPECT_EQ(files_in(folder.path()), 3u);
  }
  EXPECT_EQ(generation_in(path), 1);
  EXPECT_EQ(save(path, 4), Code::kOk);
  EXPECT_EQ(generation_in(path), 4);
}

TEST(SnapshotSave, ManyWritersAtOnceLeaveOneWholeFile) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  std::atomic<int> saved{0}, refused{0}, other{0}, broken{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < static_cast<unsigned>(cases(100)); ++i) {
        const Code code = save(path, 1000 * t + i);
        ++(code == Code::kOk ? saved : code == Code::kMisuse ? refused : other);
        if (code == Code::kOk) broken += generation_in(path) < 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(saved, 0);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(files_in(folder.path()), 1u);
  std::cout << saved << " saved, " << refused << " refused\n";
}

// Killed at every single call that leaves a trace, writes half done.
TEST(SnapshotSave, AKilledProcessLeavesTheOldFileOrTheNewOne) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  ASSERT_EQ(save(path, 1), Code::kOk);
  int result = 0, leftovers = 0, renewed = 0, kills = 0;
  for (int call = 1; result == 0 || result == 1000 + SIGKILL; ++call) {
    result = in_child([&] {
      SystemCalls calls;
      calls.kill_at(call);
      return save(path, 2) == Code::kOk ? 1 : 2;
    });
    if (result == 1) break;  // to the end
    ASSERT_EQ(result, 1000 + SIGKILL) << "call " << call;
    ++kills;
    leftovers += fs::exists(path + ".part");
    const int found = generation_in(path);
    renewed += found == 2;
    // With its new name the file is there: only the folder is not synced.
    ASSERT_EQ(found, renewed > 0 ? 2 : 1) << "call " << call;
    ASSERT_LE(files_in(folder.path()), 2u);
    ASSERT_EQ(save(path, 1), Code::kOk) << "a leftover is in nobody's way";
    ASSERT_EQ(generation_in(path), 1);
    ASSERT_EQ(files_in(folder.path()), 1u);
  }
  EXPECT_EQ(result, 1);
  EXPECT_EQ(generation_in(path), 2);
  EXPECT_GT(kills, 20);
  EXPECT_EQ(renewed, 1) << "killed between the new name and its sync";
  EXPECT_EQ(leftovers, kills - 1);
}

TEST(SnapshotSave, ItIsOnTheDiskBeforeItHasItsName) {
  const TempFolder folder;
  SystemCalls calls;
  ASSERT_EQ(save(folder / "snapshot", 1), Code::kOk);
  std::vector<SystemCalls::Call> seen = calls.seen();
  ASSERT_GT(seen.size(), 3u);
  seen.erase(seen.begin(), seen.end() - 3);
  EXPECT_EQ(seen, (std::vector<SystemCalls::Call>{{SystemCall::kSync, false},
                                                  {SystemCall::kRename, false},
                                                  {SystemCall::kSync, true}}));
}

TEST(SnapshotSave, WhatCannotBeSyncedOrRenamedReplacesNothing) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  ASSERT_EQ(save(path, 1), Code::kOk);
  for (const SystemCall kind : {SystemCall::kWrite, SystemCall::kSync, SystemCall::kRename}) {
    SystemCalls calls;
    calls.fail(kind, EIO);
    EXPECT_EQ(save(path, 2), Code::kIo) << static_cast<int>(kind);
    EXPECT_EQ(generation_in(path), 1);
    EXPECT_EQ(files_in(folder.path()), 1u);
  }
}

TEST(SnapshotSave, AWriteMayDoLessThanItIsAskedTo) {
  const TempFolder folder;
  SystemCalls calls;
  calls.write_at_most(100);
  ASSERT_EQ(save(folder / "snapshot", 1), Code::kOk);
  EXPECT_EQ(generation_in(folder / "snapshot"), 1);
}

TEST(SnapshotSave, FinishTellsTheSizeOfTheFile) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  const int64_t bytes = write_snapshot(path, shape_of(kPage), generation(1));
  EXPECT_EQ(bytes, static_cast<int64_t>(fs::file_size(path)));
}

// --- places where it cannot be saved -------------------------------------------------------------

TEST(SnapshotSave, PathsThatCannotBeWritten) {
  const TempFolder folder;
  folder.write("file", std::string_view("x"));
  for (const std::string& path :
       {folder / "missing/snapshot", folder / "file/snapshot", std::string()}) {
    const size_t files = files_in(folder.path());
    EXPECT_EQ(save(path, 1), Code::kIo) << path;
    EXPECT_EQ(files_in(folder.path()), files) << path;
  }
  expect_error(Code::kIo, {"missing/snapshot", "No such file"}, [&] {
    SnapshotWriter(folder / "missing/snapshot", shape_of(kPage), generation(1));
  });
  // What a link points to is somebody else's file.
  const std::string file = folder.write("precious", std::string_view("x"));
  fs::create_symlink(file, folder / "linked.part");
  EXPECT_EQ(save(folder / "linked", 1), Code::kIo);
  EXPECT_EQ(bytes_of(file), "x");
  // Nor is a pipe ours.
  const std::string pipe = folder / "piped.part";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error(Code::kIo, {"piped.part", "pipe"},
               [&] { SnapshotWriter(folder / "piped", shape_of(kPage), generation(1)); });
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(SnapshotSave, AFolderThatMayOnlyBeRead) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  ASSERT_EQ(save(path, 1), Code::kOk);
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0555);
  // Root may write everywhere: become somebody else.
  constexpr uid_t kNobody = 65534;
  const int result = in_child([&] {
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return kNotPermitted;
    if (access(path.c_str(), R_OK) != 0) return kNotPermitted;
    if (save(path, 2) != Code::kIo) return 1;
    return generation_in(path) == 1 ? 0 : 2;
  });
  chmod(folder.path().c_str(), 0755);
  if (result == kNotPermitted) GTEST_SKIP() << "the temporary folder is closed to other users";
  EXPECT_EQ(result, 0);
  EXPECT_EQ(files_in(folder.path()), 1u);
}

// SIGXFSZ would end the process.
TEST(SnapshotSave, AFileSizeLimitDoesNotEndTheProcess) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  ASSERT_EQ(save(path, 1), Code::kOk);
  for (const rlim_t bytes : {0, 50, 3000, 20000}) {
    const int result = in_child([&] {
      const rlimit limit{bytes, bytes};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
      return save(path, 2) == Code::kIo ? 0 : 2;
    });
    EXPECT_EQ(result, 0) << bytes;
    EXPECT_EQ(generation_in(path), 1);
    EXPECT_EQ(files_in(folder.path()), 1u);
  }
}

// A file system of 100 KB, in a mount namespace that goes with the child.
TEST(SnapshotSave, ADiskThatIsReallyFull) {
  const TempFolder folder;
  const std::string disk = folder / "disk";
  fs::create_directory(disk);
  const int result = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=100k,mode=0700") != 0)
      return kNotPermitted;
    const std::string path = disk + "/snapshot";
    if (save(path, 1) != Code::kOk) return 1;
    int full = 0;
    for (unsigned i = 2; i < 30; ++i) {
      // Both the old and the new one must fit.
      const int before = generation_in(path);
      const Code code = save(path, i);
      if (code != Code::kOk && code != Code::kIo) return 2;
      full += code == Code::kIo;
      if (generation_in(path) != (code == Code::kOk ? static_cast<int>(i) : before)) return 3;
      if (files_in(disk) != 1) return 4;
    }
    return full > 0 ? 0 : 5;
  });
  if (result == kNotPermitted) GTEST_SKIP() << "no permission to mount a small file system";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace prefix
