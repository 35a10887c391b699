// What an engine is told when a GPU does not open: the plugin over a CUDA whose calls fail
// (fake_cudart.cc).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ops/devices.h"
#include "support/expect_error.h"

namespace prefix::ops {
namespace {

void expect_when(const char* call, cudaError_t error, Code code,
                 std::initializer_list<std::string_view> words) {
  setenv("PREFIX_FAKE_CUDA", (std::string(call) + ' ' + std::to_string(error)).c_str(), 1);
  testing_support::expect_error(code, words, [] {
    DeviceOptions options;
    options.name = "cuda";
    make_device(options);
  });
  unsetenv("PREFIX_FAKE_CUDA");
}

TEST(OpenRuntime, AFullDeviceIsOutOfMemory) {
  for (const char* const call :
       {"cudaSetDevice", "cudaStreamCreateWithFlags", "cudaFuncSetAttribute", "cudaMalloc",
        "cudaEventCreateWithFlags", "cudaMallocHost"})
    expect_when(call, cudaErrorMemoryAllocation, Code::kOutOfDeviceMemory,
                {"device=cuda:0", "error 2"});
}

TEST(OpenRuntime, ALostDeviceIsLost) {
  expect_when("cudaSetDevice", cudaErrorDevicesUnavailable, Code::kDeviceLost, {"error 46"});
}

TEST(OpenRuntime, AnythingElseDoesNotRun) {
  expect_when("cudaGetDeviceCount", cudaErrorInsufficientDriver, Code::kUnsupportedDevice,
              {"the NVIDIA driver is missing or older", "error 35"});
  expect_when("cudaStreamCreateWithFlags", cudaErrorInvalidValue, Code::kUnsupportedDevice,
              {"error 1"});
}

// The driver answers so in a child, whatever its version is.
TEST(OpenRuntime, AForkedChildIsToldSo) {
  expect_when("cudaGetDeviceCount", cudaErrorInitializationError, Code::kUnsupportedDevice,
              {"CUDA cannot start in this process", "error 3", "forked", "spawn or exec"});
}

}  // namespace
}  // namespace prefix::ops
