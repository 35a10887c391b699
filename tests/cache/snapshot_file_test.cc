// The file of a snapshot: what was written is read, and whatever else a file holds is refused with
// the right status or, if a page is wrong, reported as lost.
#include "cache/snapshot_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/status.h"
#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "system_calls.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr uint64_t kPage = 80;

struct SnapshotFile : testing::Test {
  // What opening says; kOk when it opens.
  Code open_code(const std::string& bytes, const SnapshotShape& wanted = shape_of(kPage)) {
    try {
      const SnapshotReader file(in_memory(bytes), wanted);
      opened = file.index();
      pages = read_pages(file, wanted.page_bytes);
      return Code::kOk;
    } catch (const Error& e) {
      return e.code();
    }
  }
  // A file without a file system, which would take most of the time.
  std::string in_memory(const std::string& bytes) {
    EXPECT_EQ(ftruncate(*memory, 0), 0);
    EXPECT_EQ(pwrite(*memory, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return "/proc/self/fd/" + std::to_string(*memory);
  }
  std::string written(const SnapshotIndex& index) {
    write_snapshot(folder / "written", shape_of(kPage), index);
    return bytes_of(folder / "written");
  }
  std::string index_of(const std::string& file) {
    return file.substr(kSnapshotHeader, index_bytes(file));
  }

  const TempFolder folder;
  const Descriptor memory{memfd_create("snapshot", MFD_CLOEXEC)};
  std::mt19937 random{11};
  SnapshotIndex opened;
  SnapshotPages pages;
};

TEST_F(SnapshotFile, ReadsWhatWasWritten) {
  const int rounds = cases(500);
  int read = 0;
  for (int round = 0; round < rounds; ++round) {
    const SnapshotIndex index = random_index(random, random() % 40);
    ASSERT_EQ(open_code(written(index)), Code::kOk);
    ASSERT_TRUE(same(opened, index)) << "round " << round;
    ASSERT_EQ(pages.damaged + pages.wrong, 0) << "round " << round;
    read += pages.right;
  }
  EXPECT_GT(read, 10 * rounds);
}

TEST_F(SnapshotFile, EveryFlippedByteIsFound) {
  const SnapshotIndex index = random_index(random, 6);
  const std::string file = written(index);
  ASSERT_EQ(open_code(file), Code::kOk);
  const int all = pages.right;
  const size_t behind_index = kSnapshotHeader + index_bytes(file);
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const Code code = open_code(damaged);
      const bool version = at >= 8 && at < 12;
      const Code wanted = version             ? Code::kIncompatibleSnapshot
                          : at < behind_index ? Code::kFormat
                                              : Code::kOk;
      ASSERT_EQ(static_cast<int>(code), static_cast<int>(wanted)) << "byte " << at;
      if (wanted != Code::kOk) continue;
      ASSERT_TRUE(same(opened, index));
      ASSERT_EQ(pages.right, all - 1) << "byte " << at;
      ASSERT_EQ(pages.damaged, 1) << "byte " << at;
    }
  }
}

TEST_F(SnapshotFile, ACutFileKeepsThePagesItHas) {
  const SnapshotIndex index = random_index(random, 6);
  const std::string file = written(index);
  const size_t behind_index = kSnapshotHeader + index_bytes(file);
  for (size_t size = 0; size <= file.size(); ++size) {
    const Code code = open_code(file.substr(0, size));
    ASSERT_EQ(code, size < behind_index ? Code::kFormat : Code::kOk) << size << " bytes";
    if (code != Code::kOk) continue;
    ASSERT_EQ(pages.right, static_cast<int>((size - behind_index) / (kPage + 32)));
    ASSERT_EQ(pages.wrong, 0);
  }
}

// Another program writes to the file between two calls of the reader.
TEST_F(SnapshotFile, AFileThatChangesWhileItIsReadIsRefused) {
  const std::string file = written(random_index(random, 6));
  const size_t behind_index = kSnapshotHeader + index_bytes(file);
  // What it is when it is opened, and becomes before read number n; then opening says so.
  const auto refused = [&](const std::string& before, int n, const std::string& after,
                           const char* why) {
    SCOPED_TRACE(why);
    const std::string path = in_memory(before);
    SystemCalls calls;
    int reads = 0;
    calls.before_reads([&](size_t) {
      if (reads++ == n) in_memory(after);
    });
    expect_error(Code::kFormat, {why}, [&] { SnapshotReader(path, shape_of(kPage)); });
    EXPECT_GT(reads, n);
  };
  std::string longest = file;  // an index of 2^62 bytes
  longest[56 + 7] = 0x40;
  refused("", 0, file, "it has 0 bytes");
  refused("", 0, longest, "it has 0 bytes");
  refused(file.substr(0, 40), 0, longest, "it has 40 bytes");
  refused(file, 0, file.substr(0, 95), "is not a snapshot");
  refused(file, 1, file.substr(0, kSnapshotHeader), "checksum");
  refused(file, 1, file.substr(0, behind_index - 1), "checksum");
  refused(file, 2, file.substr(0, behind_index - 1), "checksum");
  refused(file, 2, std::string(file.size(), 'x'), "checksum");
  // Pages are looked at one by one.
  const SnapshotReader reader(in_memory(file), shape_of(kPage));
  in_memory(file.substr(0, behind_index + kPage + 32));
  const SnapshotPages left = read_pages(reader, kPage);
  EXPECT_EQ(left.right, 1);
  EXPECT_GT(left.damaged, 0);
  EXPECT_EQ(left.wrong, 0);
}

// A header with one bit turned calls all that is behind it its index.
TEST_F(SnapshotFile, ADamagedLengthTakesNoMemory) {
  std::string file = written(random_index(random, 6));
  constexpr size_t kLong = size_t{1} << 24;
  file[56 + 3] = static_cast<char>(file[56 + 3] | 1);
  file.resize(kSnapshotHeader + 2 * kLong);
  const std::string path = in_memory(file);
  SystemCalls calls;
  size_t all = 0, most = 0;
  calls.before_reads([&](size_t bytes) {
    all += bytes;
    most = std::max(most, bytes);
  });
  expect_error(Code::kFormat, {"checksum"}, [&] { SnapshotReader(path, shape_of(kPage)); });
  EXPECT_GT(all, kLong);
  EXPECT_LE(most, size_t{1} << 20);
}

TEST_F(SnapshotFile, OfSomethingElseIsIncompatible) {
  const std::string file = written(random_index(random, 3));
  SnapshotShape model = shape_of(kPage), tokens = model, bytes = model;
  model.fingerprint[31] ^= 1;
  tokens.page_tokens = 64;
  bytes.page_bytes = kPage + 16;
  for (const SnapshotShape& other : {model, tokens, bytes})
    EXPECT_EQ(open_code(file, other), Code::kIncompatibleSnapshot);
  // A later format may end anywhere and have any checksum.
  std::string later = file;
  later[8] = 2;
  expect_error(Code::kIncompatibleSnapshot, {"format 2", "reads 1", "later"},
               [&] { SnapshotReader(folder.write("later", later), shape_of(kPage)); });
}

TEST_F(SnapshotFile, WhatIsNoSnapshot) {
  const SnapshotShape shape = shape_of(kPage);
  expect_error(Code::kNotFound, {"missing"}, [&] { SnapshotReader(folder / "missing", shape); });
  expect_error(Code::kNotFound, {"missing"}, [&] { SnapshotReader(folder / "missing/a", shape); });
  expect_error(Code::kFormat, {"not a snapshot"}, [&] { SnapshotReader(folder.path(), shape); });
  expect_error(Code::kFormat, {"not a snapshot"}, [&] { SnapshotReader("/dev/null", shape); });
  EXPECT_EQ(open_code(std::string(1000, 'x')), Code::kFormat);
  const std::string file = folder.write("plain", std::string_view("x"));
  expect_error(Code::kIo, {"plain"}, [&] { SnapshotReader(file + "/below", shape); });
}

// An index that only malice or a bug writes: its checksum is right.
TEST_F(SnapshotFile, AnIndexThatContradictsItselfIsRefused) {
  const auto chain = [&] {
    SnapshotIndex index;
    index.namespaces = {{}, {"a"}};
    for (int32_t i = 0; i < 3; ++i) {
      SnapshotNode n;
      n.parent = i - 1;
      n.start = 5 * i;
      n.tokens.assign(5, 7);
      index.nodes.push_back(n);
    }
    return index;
  };
  ASSERT_EQ(open_code(written(chain())), Code::kOk);
  const auto refused = [&](const char* what, const auto& change) {
    SnapshotIndex index = chain();
    change(index);
    SCOPED_TRACE(what);
    const std::string file = folder / "bad";
    {
      SnapshotWriter(file, shape_of(kPage), index).finish();
    }
    expect_error(Code::kFormat, {"node"}, [&] { SnapshotReader(file, shape_of(kPage)); });
  };
  refused("its own parent", [](SnapshotIndex& i) { i.nodes[1].parent = 1; });
  refused("a later parent", [](SnapshotIndex& i) { i.nodes[1].parent = 2; });
  refused("a parent that is not there", [](SnapshotIndex& i) { i.nodes[2].parent = 900; });
  refused("a parent below none", [](SnapshotIndex& i) { i.nodes[2].parent = -2; });
  refused("a namespace that is not there", [](SnapshotIndex& i) { i.nodes[0].name_space = 2; });
  refused("a parent of another namespace", [](SnapshotIndex& i) { i.nodes[1].name_space = 1; });
  refused("a parent of another regime", [](SnapshotIndex& i) { i.nodes[1].long_regime = true; });
  refused("no tokens", [](SnapshotIndex& i) { i.nodes[1].tokens.clear(); });
}

TEST_F(SnapshotFile, CountsOfWhatIsNotThereAreNotBelieved) {
  const std::string file = written(random_index(random, 5));
  const std::string index = index_of(file);
  int refused = 0;
  for (const uint32_t count : {0xffffffffu, 0x7fffffffu, 0x10000000u, 0x00ffffffu}) {
    for (size_t at = 0; at + 4 <= index.size(); ++at) {
      std::string other = index;
      std::memcpy(other.data() + at, &count, sizeof(count));
      const Code code = open_code(with_index(file, other));  // kOk: at was in a token
      ASSERT_TRUE(code == Code::kOk || code == Code::kFormat) << "at " << at;
      refused += code == Code::kFormat;
    }
  }
  EXPECT_GT(refused, 100);
  // One namespace more than there are bytes for is refused before any is made.
  std::string one_more = index;
  const auto count = static_cast<uint32_t>((index.size() - sizeof(uint32_t)) / 4 + 1);
  std::memcpy(one_more.data(), &count, sizeof(count));
  expect_error(Code::kFormat, {"counts", std::to_string(count)}, [&] {
    const SnapshotReader reader(in_memory(with_index(file, one_more)), shape_of(kPage));
  });
  EXPECT_EQ(open_code(with_index(file, index)), Code::kOk);
  EXPECT_EQ(open_code(with_index(file, index + "x")), Code::kFormat);
  for (size_t size = 0; size < index.size(); ++size)
    ASSERT_EQ(open_code(with_index(file, index.substr(0, size))), Code::kFormat) << size;
}

TEST_F(SnapshotFile, AnIndexOfRandomBytesIsConsistentOrRefused) {
  const std::string file = written(random_index(random, 8));
  int accepted = 0;
  const int rounds = cases(20000);
  for (int round = 0; round < rounds; ++round) {
    std::string index = index_of(file);
    for (size_t changes = 1 + random() % 3; changes > 0; --changes)
      index[random() % index.size()] = static_cast<char>(random() % 2 ? random() : random() % 4);
    const Code code = open_code(with_index(file, index));
    ASSERT_TRUE(code == Code::kOk || code == Code::kFormat);
    if (code != Code::kOk) continue;
    ++accepted;
    for (size_t i = 0; i < opened.nodes.size(); ++i) {
      const SnapshotNode& n = opened.nodes[i];
      ASSERT_TRUE(n.parent >= -1 && n.parent < static_cast<int32_t>(i));
      ASSERT_LT(n.name_space, opened.namespaces.size());
      ASSERT_FALSE(n.tokens.empty());
      ASSERT_EQ(n.start, n.parent < 0 ? 0 : opened.nodes[static_cast<size_t>(n.parent)].end());
    }
  }
  EXPECT_GT(accepted, rounds / 20);
  EXPECT_LT(accepted, rounds);
}

}  // namespace
}  // namespace prefix
