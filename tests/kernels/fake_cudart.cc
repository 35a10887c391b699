// A CUDA runtime without a GPU, linked into the plugin: each call does nothing, and the one that
// the environment's PREFIX_FAKE_CUDA names fails, "cudaMalloc 2" with error 2.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernel_table.h"

namespace {

cudaError_t answer(const char* call) {
  const char* const wanted = std::getenv("PREFIX_FAKE_CUDA");
  if (!wanted) return cudaSuccess;
  const size_t length = std::strlen(call);
  if (std::strncmp(wanted, call, length) != 0 || wanted[length] != ' ') return cudaSuccess;
  return static_cast<cudaError_t>(std::atoi(wanted + length));
}

}  // namespace

#undef cudaGetDeviceProperties
#define FAKE(name, ...) \
  cudaError_t name(__VA_ARGS__) { return answer(#name); }

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return answer("cudaGetDeviceCount");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(static_cast<void*>(p), 0, sizeof *p);
  std::strcpy(p->name, "fake");
  p->major = 8;
  p->multiProcessorCount = 108;
  p->totalGlobalMem = size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = size_t{5} << 20;
  *total = size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *found = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "fake"; }
const char* cudaGetErrorString(cudaError_t error) {
  thread_local char text[32];
  std::snprintf(text, sizeof text, "error %d", static_cast<int>(error));
  return text;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

FAKE(cudaSetDevice, int)
FAKE(cudaStreamCreateWithFlags, cudaStream_t*, unsigned)
FAKE(cudaStreamDestroy, cudaStream_t)
FAKE(cudaStreamSynchronize, cudaStream_t)
FAKE(cudaStreamQuery, cudaStream_t)
FAKE(cudaStreamBeginCapture, cudaStream_t, cudaStreamCaptureMode)
FAKE(cudaStreamEndCapture, cudaStream_t, cudaGraph_t*)
FAKE(cudaThreadExchangeStreamCaptureMode, cudaStreamCaptureMode*)
FAKE(cudaMalloc, void**, size_t)
FAKE(cudaFree, void*)
FAKE(cudaMallocHost, void**, size_t)
FAKE(cudaFreeHost, void*)
FAKE(cudaMemsetAsync, void*, int, size_t, cudaStream_t)
FAKE(cudaMemcpyAsync, void*, const void*, size_t, cudaMemcpyKind, cudaStream_t)
FAKE(cudaEventCreateWithFlags, cudaEvent_t*, unsigned)
FAKE(cudaEventDestroy, cudaEvent_t)
FAKE(cudaEventRecord, cudaEvent_t, cudaStream_t)
FAKE(cudaEventSynchronize, cudaEvent_t)
FAKE(cudaLaunchKernelExC, const cudaLaunchConfig_t*, const void*, void**)
FAKE(cudaGraphInstantiate, cudaGraphExec_t*, cudaGraph_t, unsigned long long)
FAKE(cudaGraphDestroy, cudaGraph_t)
FAKE(cudaGraphExecDestroy, cudaGraphExec_t)
FAKE(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
FAKE(cudaFuncGetAttributes, cudaFuncAttributes*, const void*)
FAKE(cudaFuncSetAttribute, const void*, cudaFuncAttribute, int)
FAKE(cudaOccupancyMaxActiveClusters, int*, const void*, const cudaLaunchConfig_t*)

}  // extern "C"

namespace prefix::ops::gpu {

const void* row_kernel(Kernel) { return reinterpret_cast<const void*>(&answer); }
const void* mma_kernel(Kernel) { return nullptr; }

}  // namespace prefix::ops::gpu
