// How launches are described to CUDA.
#include "launch_shape.h"

#include <gtest/gtest.h>

#include <set>

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
      std::set<cudaLaunchAttributeID> wanted;
      if (cluster > 1) wanted.insert(cudaLaunchAttributeClusterDimension);
      if (overlap) wanted.insert(cudaLaunchAttributeProgrammaticStreamSerialization);
      EXPECT_EQ(found, wanted) << cluster << ", " << overlap;
    }
  }
}

}  // namespace
}  // namespace prefix::ops::gpu
