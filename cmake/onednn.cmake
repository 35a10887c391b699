# oneDNN's matrix products, for a test and a benchmark: never part of the library. (Found by hand: the package's own
# CMake file insists on OpenCL headers.)
find_library(PREFIX_DNNL_LIBRARY dnnl REQUIRED)
find_path(PREFIX_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(prefix_onednn STATIC bench/ops/onednn_gemm.cc)
target_include_directories(prefix_onednn PUBLIC ${PROJECT_SOURCE_DIR}/bench)
target_include_directories(prefix_onednn SYSTEM PRIVATE ${PREFIX_DNNL_INCLUDE})
target_link_libraries(prefix_onednn PUBLIC prefix_flags PRIVATE ${PREFIX_DNNL_LIBRARY} gomp)
