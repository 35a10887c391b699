// A launch as CUDA wants to have it described.
//
//   kernel A   [ wait ][ blocks ......... ]
//   kernel B              [ waits for A   ][ blocks ... ]     `overlap`: B is launched while A ends
//
// What overlaps begins by waiting for what was launched before it (block_cuda.cuh). Copies, and
// products of cuBLASLt, which are launched without this, begin when everything before has ended.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {

struct LaunchShape {
  LaunchShape(const Command& c, cudaStream_t stream, bool overlap = false) {
    config.gridDim = dim3(c.grid_x, c.grid_y);
    config.blockDim = dim3(c.threads);
    config.dynamicSmemBytes = c.shared_bytes;
    config.stream = stream;
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {c.cluster, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    const bool clusters = c.cluster > 1;
    config.attrs = clusters || !overlap ? attributes : attributes + 1;
    config.numAttrs = (clusters ? 1u : 0u) + (overlap ? 1u : 0u);
  }
  LaunchShape(const LaunchShape&) = delete;
  LaunchShape& operator=(const LaunchShape&) = delete;

  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[2]{};
};

}  // namespace prefix::ops::gpu
