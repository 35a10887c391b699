// The functions of cuBLASLt that are used, found in a library that is opened at run time. Its
// header comes with half a gigabyte, so they are declared here, from NVIDIA's documentation of
// cuBLAS 13. Handles, streams and descriptors are pointers: nothing here needs CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace prefix::ops::gpu {

struct CublasLtApi {
  struct Algorithm {  // cublasLtMatmulAlgo_t
    uint64_t data[8];
  };
  struct Heuristic {  // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  };
  static_assert(sizeof(Heuristic) == 64 + 8 + 4 + 4 + 16);

  size_t (*version)();
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*desc_create)(void** desc, int compute, int scale_type);
  int (*desc_destroy)(void* desc);
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*layout_destroy)(void* layout);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference,
                   int wanted, Heuristic* found, int* count);
  int (*check)(void* handle, void* desc, void* a, void* b, void* c, void* d, const Algorithm*,
               Heuristic* result);
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                void* d, void* d_layout, const Algorithm*, void* workspace, size_t workspace_bytes,
                void* stream);
};

// The library stays open: other users may have it too. False when there is none that works; `why`
// says what each file answered.
bool open_cublaslt(CublasLtApi& api, std::string& why);

// What cublasLt.h and library_types.h call these is beside them.
namespace cublaslt {

inline constexpr size_t kOldestVersion = 130000;  // 13.0

inline constexpr int kSuccess = 0;        // CUBLAS_STATUS_SUCCESS
inline constexpr int kAllocFailed = 3;    // CUBLAS_STATUS_ALLOC_FAILED
inline constexpr int kInvalidValue = 7;   // CUBLAS_STATUS_INVALID_VALUE
inline constexpr int kArchMismatch = 8;   // CUBLAS_STATUS_ARCH_MISMATCH
inline constexpr int kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED

inline constexpr int kCompute32F = 68;          // CUBLAS_COMPUTE_32F
inline constexpr int kR32F = 0;                 // CUDA_R_32F
inline constexpr int kR16Bf = 14;               // CUDA_R_16BF
inline constexpr int32_t kTransposed = 1;       // CUBLAS_OP_T
inline constexpr int kDescTransA = 3;           // CUBLASLT_MATMUL_DESC_TRANSA
inline constexpr int kDescEpilogue = 7;         // CUBLASLT_MATMUL_DESC_EPILOGUE
inline constexpr int kDescBias = 8;             // CUBLASLT_MATMUL_DESC_BIAS_POINTER
inline constexpr int kDescBiasType = 26;        // CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
inline constexpr uint32_t kEpilogueBias = 4;    // CUBLASLT_EPILOGUE_BIAS
inline constexpr int kPreferenceWorkspace = 1;  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
inline constexpr int kPreferenceReduction = 3;  // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
// CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{A,B,C,D}_BYTES
inline constexpr int kPreferenceAlignment[] = {5, 6, 7, 8};

}  // namespace cublaslt
}  // namespace prefix::ops::gpu
