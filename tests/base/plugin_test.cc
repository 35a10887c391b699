// A plugin is found where it may lie, and one that cannot be used is refused with its name and the
// reason. The plugins are made for the test: tests/base/CMakeLists.txt.
#include "base/plugin.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/build_folder.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::build_folder;
using testing_support::expect_error;
using testing_support::TempFolder;

// The environment for the time of a test.
class Plugins {
 public:
  explicit Plugins(const std::string& folder) { setenv("LIBPREFIX_PLUGINS", folder.c_str(), 1); }
  ~Plugins() { unsetenv("LIBPREFIX_PLUGINS"); }
};

TEST(Plugin, OpensAndCalls) {
  const Plugins plugins(build_folder() + "/tests/base/plugins");
  auto* const answer = reinterpret_cast<int (*)()>(open_plugin("test_good", "prefix_test_answer"));
  EXPECT_EQ(answer(), 42);
  // Again: the same library, not a second copy.
  EXPECT_EQ(open_plugin("test_good", "prefix_test_answer"), reinterpret_cast<void*>(answer));
}

TEST(Plugin, SaysWhatIsMissing) {
  const TempFolder folder;
  const Plugins plugins(folder.path());
  expect_error(Code::kNotFound,
               {"libprefix_absent.so", folder.path(), "LIBPREFIX_PLUGINS", "No such file"},
               [] { open_plugin("absent", "entry"); });
  unsetenv("LIBPREFIX_PLUGINS");
  expect_error(Code::kNotFound, {"libprefix_absent.so"}, [] { open_plugin("absent", "entry"); });
}

TEST(Plugin, RefusesAnotherBuild) {
  const Plugins plugins(build_folder() + "/tests/base/plugins");
  expect_error(Code::kNotFound, {"libprefix_test_old.so", "libprefix 0.0.0", "this is"},
               [] { open_plugin("test_old", "prefix_test_answer"); });
}

TEST(Plugin, RefusesWhatIsNoPluginOfOurs) {
  const Plugins plugins(build_folder() + "/tests/base/plugins");
  expect_error(Code::kNotFound, {"libprefix_test_foreign.so", "prefix_plugin_stamp"},
               [] { open_plugin("test_foreign", "prefix_test_answer"); });
  expect_error(Code::kNotFound, {"libprefix_test_good.so", "prefix_no_such_entry"},
               [] { open_plugin("test_good", "prefix_no_such_entry"); });
}

TEST(Plugin, RefusesWhatIsNoLibrary) {
  const TempFolder folder;
  folder.write("libprefix_text.so", std::string_view("hello"));
  folder.write("libprefix_empty.so", std::string_view());
  std::filesystem::create_directory(folder / "libprefix_folder.so");
  const Plugins plugins(folder.path());
  for (const char* name : {"text", "empty", "folder"})
    expect_error(Code::kNotFound, {folder.path(), name}, [&] { open_plugin(name, "entry"); });
}

}  // namespace
}  // namespace prefix
