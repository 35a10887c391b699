// The build folder of the program that runs. It need not be the one its objects were compiled in: a
// build with the address sanitizer takes those of most tests from another (tests/CMakeLists.txt).
#pragma once

#include <filesystem>
#include <string>

namespace prefix::testing_support {

// Programs of tests are in its bin/tests.
inline std::string build_folder() {
  return std::filesystem::canonical("/proc/self/exe")
      .parent_path()
      .parent_path()
      .parent_path()
      .string();
}

}  // namespace prefix::testing_support
