// libprefix_cuda.so as a file: what it exports and needs, what it says on a machine without a
// driver, and what the compiler reported about its kernels.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "base/status.h"
#include "kernels/gpu_support.h"
#include "support/build_folder.h"
#include "support/expect_error.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

const std::string kPlugin = testing_support::build_folder() + "/lib/libprefix_cuda.so";
const std::string kLibrary = testing_support::build_folder() + "/lib/libprefix.so";

#define SKIP_WITHOUT_PLUGIN()                                             \
  if (!std::filesystem::exists(kPlugin))                                  \
  GTEST_SKIP() << "this build has no libprefix_cuda.so: no CUDA compiler" \
               << " (tools/cuda_toolchain installs one)"

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return text;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  return text;
}

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator i(text.begin(), text.end(), expression), end; i != end; ++i)
    found.insert((*i)[1]);
  return found;
}

TEST(CudaPlugin, ExportsItsEntryPointsOnly) {
  SKIP_WITHOUT_PLUGIN();
  const std::string symbols = output_of("nm -D --defined-only " + kPlugin);
  EXPECT_EQ(matches(symbols, "[0-9a-f]+ [A-Za-z] (\\S+)"),
            (std::set<std::string>{"prefix_cuda_entry", "prefix_plugin_stamp"}));
}

TEST(CudaPlugin, NeedsNoLibraryOfCuda) {
  SKIP_WITHOUT_PLUGIN();
  for (const std::string& file : {kPlugin, kLibrary}) {
    if (!std::filesystem::exists(file)) continue;
    for (const std::string& name : matches(output_of("readelf -d " + file), "NEEDED.*\\[(.*)\\]"))
      EXPECT_TRUE(name.find("cu") == std::string::npos && name.find("nv") == std::string::npos)
          << file << " needs " << name;
  }
}

TEST(CudaPlugin, LoadsWithoutADriverAndSaysSo) {
  SKIP_WITHOUT_PLUGIN();
  void* const library = dlopen(kPlugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using Entry = const ops::gpu::PluginEntry*();
  auto* const entry = reinterpret_cast<Entry*>(dlsym(library, ops::gpu::kPluginEntry));
  ASSERT_NE(entry, nullptr);
  char why[512] = "";
  const int32_t count = entry()->count(why, sizeof why);
  if (count > 0) GTEST_SKIP() << "there is a driver, with " << count << " devices";
  EXPECT_NE(std::string(why).find("driver"), std::string::npos) << why;
  why[0] = 0;
  Code code = Code::kOk;
  EXPECT_EQ(entry()->open(0, false, &code, why, sizeof why), nullptr);
  EXPECT_NE(code, Code::kOk);
  EXPECT_NE(std::string(why).find("driver"), std::string::npos) << why;
}

TEST(CudaPlugin, AnEngineSaysWhatIsMissing) {
  if (ops::testing::no_gpu().empty()) GTEST_SKIP() << "there is a GPU";
  const testing_support::TinyCheckpoint checkpoint;
  testing_support::expect_error(Code::kUnsupportedDevice, {"device=cuda"}, [&] {
    testing_support::make_engine(checkpoint, {{"device", "cuda"}});
  });
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:999", "gpu", "cuda0", ""})
    testing_support::expect_error(Code::kInvalidArgument, {"device", "cuda:0 to cuda:63"},
                                  [&] { testing_support::make_options({{"device", name}}); });
}

TEST(CudaDevices, OneThatIsTooOldIsListedWithAReason) {
  ops::gpu::Properties properties;
  properties.capability = 75;
  EXPECT_EQ(ops::gpu_info(properties).level, "sm_75");
  EXPECT_EQ(ops::gpu_info(properties).reason, "compute capability 7.5 is older than 8.0");
  properties.capability = 80;
  EXPECT_EQ(ops::gpu_info(properties).reason, "");
}

// Calls f(line) for what the compiler of the kernels left in files with this ending.
void each_line(const char* ending, const std::function<void(const std::string& line)>& f) {
  for (const auto& entry :
       std::filesystem::directory_iterator(testing_support::build_folder() + "/kernels")) {
    if (entry.path().extension() != ending) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) f(line);
  }
}

// Registers that do not fit go to memory, which is what a kernel must not do in its inner loop.
TEST(CudaKernels, AttentionDoesNotSpill) {
  SKIP_WITHOUT_PLUGIN();
  int kernels = 0, for_hopper = 0;
  std::set<std::string> targets;
  std::string kernel;
  each_line(".resources", [&](const std::string& line) {
    std::smatch m;
    if (std::regex_search(line, m, std::regex("Compiling entry function '(.*)' for '(.*)'"))) {
      kernel = m[1].str() + " for " + m[2].str();
      targets.insert(m[2]);
    }
    // What ptxas says when products of a warpgroup wait for each other, or registers stay as they
    // are.
    EXPECT_FALSE(std::regex_search(line, std::regex("serialized|setmaxnreg ignored|\\(C75")))
        << kernel << ": " << line;
    if (!std::regex_search(kernel, std::regex("attention")) ||
        line.find("bytes stack frame") == std::string::npos)
      return;
    ++kernels;
    for_hopper += std::regex_search(kernel, std::regex("attention_(hopper|decode)"));
    EXPECT_NE(line.find(" 0 bytes stack frame, 0 bytes spill stores"), std::string::npos)
        << kernel << ": " << line;
  });
  EXPECT_GE(kernels, 6 * static_cast<int>(targets.size()));  // five, and the slow one
  EXPECT_EQ(for_hopper, targets.contains("sm_90a") ? 4 : 0);
  EXPECT_FALSE(targets.empty());
}

// Kernels overlap: what touches memory before the wait would read what the kernel before has not
// written yet.
TEST(CudaKernels, NothingIsTouchedBeforeTheKernelsBeforeHaveEnded) {
  SKIP_WITHOUT_PLUGIN();
  std::set<std::string> targets, kernels;
  std::string target, kernel;
  int waits = 1;
  each_line(".ptx", [&](const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word.starts_with('@')) words >> word;  // a predicate
    if (word == ".target") words >> target;
    if (line.find(".entry") != std::string::npos) {
      EXPECT_EQ(waits, 1) << kernel;
      kernel = target + ' ' + line.substr(line.find(".entry") + 7);
      waits = 0;
      targets.insert(target);
      kernels.insert(kernel);
    }
    if (word.starts_with("griddepcontrol.wait")) ++waits;
    bool touches = false;
    for (const char* const access : {"ld", "st.", "atom", "red", "cp.", "prefetch", "mbarrier"})
      touches = touches || word.starts_with(access);
    EXPECT_TRUE(!touches || word.starts_with("ld.param") || waits == 1) << kernel << ": " << line;
  });
  EXPECT_EQ(waits, 1) << kernel;
  // All but those for f32 and tensor cores are compiled for each.
  EXPECT_GE(kernels.size(), 18 * targets.size());
}

}  // namespace
}  // namespace prefix
