// What each error of CUDA does to an engine. Compiled where the plugin is: it needs CUDA's headers.
#include "cuda_errors.h"

#include <gtest/gtest.h>

namespace prefix::ops::gpu {
namespace {

TEST(CudaErrors, ARequestThatAskedForTooMuchEndsAlone) {
  EXPECT_EQ(code_of(cudaErrorMemoryAllocation), Code::kOutOfDeviceMemory);
  EXPECT_EQ(code_of(cudaErrorLaunchOutOfResources), Code::kOutOfDeviceMemory);
}

// Those of which driver_types.h says that the process must be relaunched.
TEST(CudaErrors, WhatEndsAllLaterCallsIsALostDevice) {
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable, cudaErrorContained, cudaErrorContextIsDestroyed,
        cudaErrorTensorMemoryLeak, cudaErrorMpsClientTerminated, cudaErrorExternalDevice,
        cudaErrorUnknown, cudaErrorCudartUnloading})
    EXPECT_EQ(code_of(error), Code::kDeviceLost) << error;
}

TEST(CudaErrors, TheRestIsAMistakeOfTheLibrary) {
  EXPECT_EQ(code_of(cudaSuccess), Code::kOk);
  EXPECT_EQ(code_of(cudaErrorInvalidValue), Code::kInternal);
  EXPECT_EQ(code_of(cudaErrorInvalidDeviceFunction), Code::kInternal);
}

}  // namespace
}  // namespace prefix::ops::gpu
