// What the plugin says to CUDA and what it makes of the answers. Compiled where the plugin is: it needs CUDA's headers.
#include <gtest/gtest.h>

#include <set>

#include "cuda_errors.h"
#include "launch_shape.h"

namespace prefix::ops::gpu {
namespace {

TEST(LaunchShape, ClustersAndOverlappingAreAskedForWhereWanted) {
  for (const uint32_t cluster : {1u, 2u, 7u}) {
    for (const bool overlap : {false, true}) {
      const Command command = command_of(Kernel::kAttentionDecode128, 7 * cluster, 3,
                                         DecodeKernelArgs{}, 1000, static_cast<int>(cluster));
      const LaunchShape shape(command, nullptr, overlap);
      EXPECT_EQ(shape.config.gridDim.x, 7 * cluster);
      EXPECT_EQ(shape.config.gridDim.y, 3u);
      EXPECT_EQ(shape.config.blockDim.x, 288u);
      EXPECT_EQ(shape.config.dynamicSmemBytes, 1000u + decode_shared_bytes(128));
      std::set<cudaLaunchAttributeID> found;
      for (unsigned i = 0; i < shape.config.numAttrs; ++i) {
        const cudaLaunchAttribute& a = shape.config.attrs[i];
        found.insert(a.id);
        if (a.id == cudaLaunchAttributeClusterDimension) {
          EXPECT_EQ(a.val.clusterDim.x, cluster);
          EXPECT_EQ(a.val.clusterDim.y * a.val.clusterDim.z, 1u);
        } else {
          EXPECT_EQ(a.val.programmaticStreamSerializationAllowed, 1);
        }
      }
      EXPECT_EQ(found.contains(cudaLaunchAttributeClusterDimension), cluster > 1);
      EXPECT_EQ(found.contains(cudaLaunchAttributeProgrammaticStreamSerialization), overlap);
    }
  }
}

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
