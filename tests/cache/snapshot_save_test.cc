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
#include <chrono>
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

// In the child, until it is killed.
[[noreturn]] void save_for_ever(const std::string& path, unsigned first) {
  for (unsigned i = first;; i = i % 50 + 1)
    if (save(path, i) != Code::kOk) _exit(3);
}

TEST(SnapshotSave, AKilledProcessLeavesTheOldFileOrTheNewOne) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto start = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(save(path, i), Code::kOk);
  const auto five = std::chrono::steady_clock::now() - start;
  const int64_t most = five / std::chrono::microseconds(1) + 1000;  // how long a child lives
  int leftovers = 0, renewed = 0, before = 4;
  const int kills = cases(600);
  for (int round = 0; round < kills; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_for_ever(path, 1 + static_cast<unsigned>(random() % 50));
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(random()) % most));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself";
    const int found = generation_in(path);
    ASSERT_GE(found, 0) << "seed " << seed << ", kill " << round;
    leftovers += fs::exists(path + ".part");
    renewed += found != before;
    before = found;
    ASSERT_LE(files_in(folder.path()), 2u);
    if (round % 8 != 0) continue;
    ASSERT_EQ(save(path, 51), Code::kOk) << "a leftover is in nobody's way";
    ASSERT_EQ(generation_in(path), before = 51);
    ASSERT_EQ(files_in(folder.path()), 1u);
  }
  std::cout << kills << " kills, " << leftovers << " while a file was written, " << renewed
            << " after a new one appeared\n";
  EXPECT_GT(leftovers, kills / 50);
  EXPECT_GT(renewed, kills / 50);
}

// --- places where it cannot be saved -------------------------------------------------------------

TEST(SnapshotSave, PathsThatCannotBeWritten) {
  const TempFolder folder;
  fs::create_directory(folder / "folder");
  folder.write("file", std::string_view("x"));
  for (const std::string& path :
       {folder / "missing/snapshot", folder / "file/snapshot", folder / "folder", std::string()}) {
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
