// Processors and memory as control groups allow them, from files under a root of the test.
#include "base/resources.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/grouped_locale.h"
#include "support/on_processors.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

class Machine {
 public:
  Machine() {
    write("proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
    write("proc/self/cgroup", "0::/pods/one\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    root_.write(path, text);
  }
  void group(const std::string& path, const std::string& file, const std::string& text) {
    write("sys/fs/cgroup/" + path + file, text);
  }
  Resources read() const { return resources(root_.path()); }

 private:
  testing_support::TempFolder root_;
};

constexpr int64_t kGiB = int64_t{1} << 30;

int all_processors() { return static_cast<int>(testing_support::processors().size()); }

TEST(Resources, WithoutGroupsTheMachineDecides) {
  const Machine machine;
  EXPECT_EQ(machine.read().processors, all_processors());
  EXPECT_EQ(machine.read().total_bytes, 16 * kGiB);
  EXPECT_EQ(machine.read().available_bytes, 8 * kGiB);
}

TEST(Resources, AffinityLimitsProcessors) {
  const testing_support::OnProcessors one(1);
  EXPECT_EQ(Machine().read().processors, 1);
  EXPECT_EQ(resources().processors, 1);
}

TEST(Resources, AQuotaLimitsProcessorsAndAPartOfOneCounts) {
  if (all_processors() < 2) GTEST_SKIP() << "needs two processors";
  for (const auto& [quota, wanted] :
       {std::pair("100000 100000", 1), std::pair("50000 100000", 1), std::pair("100001 100000", 2),
        std::pair("max 100000", all_processors()), std::pair("9000000 100000", all_processors()),
        std::pair("0 100000", all_processors()), std::pair("-5 x", all_processors()),
        std::pair("", all_processors())}) {
    Machine machine;
    machine.group("pods/one/", "cpu.max", quota);
    EXPECT_EQ(machine.read().processors, wanted) << quota;
  }
}

TEST(Resources, TheNarrowestGroupAroundDecides) {
  Machine machine;
  machine.group("", "cpu.max", "max 100000");
  machine.group("pods/", "cpu.max", "100000 100000");
  machine.group("pods/one/", "cpu.max", "6400000 100000");
  machine.group("pods/", "memory.max", std::to_string(4 * kGiB));
  machine.group("pods/", "memory.current", std::to_string(3 * kGiB));
  machine.group("pods/one/", "memory.max", std::to_string(6 * kGiB));
  EXPECT_EQ(machine.read().processors, 1);
  EXPECT_EQ(machine.read().total_bytes, 4 * kGiB);
  EXPECT_EQ(machine.read().available_bytes, 1 * kGiB);
  // Another group's limits are not this process's.
  machine.write("proc/self/cgroup", "0::/elsewhere\n");
  EXPECT_EQ(machine.read().available_bytes, 8 * kGiB);
}

TEST(Resources, PagesOfFilesThatCanGoAreAvailable) {
  Machine machine;
  machine.group("pods/one/", "memory.max", std::to_string(4 * kGiB) + "\n");
  machine.group("pods/one/", "memory.current", std::to_string(4 * kGiB) + "\n");
  EXPECT_EQ(machine.read().available_bytes, 0);
  machine.group("pods/one/", "memory.stat",
                "anon 5\nfile 1\ninactive_file " + std::to_string(3 * kGiB) + "\nslab 3\n");
  EXPECT_EQ(machine.read().available_bytes, 3 * kGiB);
  machine.group("pods/one/", "memory.max", "max\n");
  EXPECT_EQ(machine.read().available_bytes, 8 * kGiB);
}

// Where a space stands between groups of digits, the one behind a number would belong to it.
TEST(Resources, FilesOfTheSystemAreReadInNoLocale) {
  const Machine machine;
  const testing_support::GroupedLocale spaces(' ');
  EXPECT_EQ(machine.read().total_bytes, 16 * kGiB);
}

// In a container the group's own path is the root of what it sees.
TEST(Resources, AContainerSeesItsGroupAtTheRoot) {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.group("", "memory.max", std::to_string(2 * kGiB));
  EXPECT_EQ(machine.read().available_bytes, 2 * kGiB);
}

TEST(Resources, NonsenseIsNoLimitAndLeavesNoFolder) {
  Machine machine;
  machine.write("proc/self/cgroup", "garbage\n1:name=systemd:/x\n0::/../../pods//one\n");
  machine.group("pods/one/", "memory.max", "99999999999999999999999");
  machine.group("pods/one/", "cpu.max", "99999999999999999999999 100000");
  EXPECT_EQ(machine.read().available_bytes, 8 * kGiB);
  EXPECT_EQ(machine.read().processors, all_processors());
  machine.group("pods/one/", "memory.max", std::to_string(kGiB));
  EXPECT_EQ(machine.read().available_bytes, kGiB);
  machine.write("proc/meminfo", "");
  EXPECT_EQ(machine.read().available_bytes, kGiB);
}

}  // namespace
}  // namespace prefix
