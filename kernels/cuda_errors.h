// What an error of CUDA means to an engine: a request that asked for too much, a device that is
// gone, or a mistake of this library.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"

namespace prefix::ops::gpu {

constexpr Code code_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return Code::kOk;
    // This call cannot be done; the next one may be.
    case cudaErrorMemoryAllocation:
    case cudaErrorLaunchOutOfResources:
      return Code::kOutOfDeviceMemory;
    // The context is gone, and every later call of the process fails too.
    case cudaErrorCudartUnloading:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorInvalidPc:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return Code::kDeviceLost;
    default:
      return Code::kInternal;
  }
}

}  // namespace prefix::ops::gpu
