// The functions of cuDNN's backend interface that are used, found in a library that is opened at
// run time, and the few numbers of its enumerations. Declared here as cublaslt_api.h does it;
// handles, streams and descriptors are pointers: nothing here needs CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace prefix::ops::gpu {

struct CudnnApi {
  size_t (*version)();
  const char* (*name_of)(int status);
  void (*last_error)(char* text, size_t bytes);  // of this thread
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, void* stream);
  // A descriptor is made, gets its attributes and is finalized; then it can be used.
  int (*descriptor_create)(int type, void** descriptor);
  int (*descriptor_destroy)(void* descriptor);
  int (*set)(void* descriptor, int attribute, int type, int64_t count, const void* values);
  int (*get)(void* descriptor, int attribute, int type, int64_t wanted, int64_t* count,
             void* values);
  int (*finalize)(void* descriptor);
  int (*execute)(void* handle, void* plan, void* variant_pack);
};

// The library stays open: other users may have it too. False when there is none that works; `why`
// says what each file answered.
bool open_cudnn(CudnnApi& api, std::string& why);

// What cudnn_graph.h calls these is beside them. Compared with the headers of cuDNN 9.19.1.
namespace cudnn {

inline constexpr int kSuccess = 0;          // CUDNN_STATUS_SUCCESS
inline constexpr int kNotSupported = 3000;  // CUDNN_STATUS_NOT_SUPPORTED, and those up to 3999
inline constexpr int kNotSupportedEnd = 4000;
inline constexpr int kNoHostMemory = 4003;    // CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
inline constexpr int kNoDeviceMemory = 4004;  // CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_...

// CUDNN_BACKEND_..._DESCRIPTOR
enum Descriptor : int {
  kPointwise = 0,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
};

// CUDNN_TYPE_...: of attributes
enum AttributeType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeVoidPtr = 6,
  kTypeHeurMode = 8,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeReductionOperator = 18,
};

// CUDNN_ATTR_...
enum Attribute : int {
  kPointwiseMode = 0,
  kPointwiseMathPrec = 1,
  kPointwiseAxis = 9,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPointwiseOpDesc = 750,
  kPointwiseOpX = 751,
  kPointwiseOpB = 752,
  kPointwiseOpY = 753,
  kPointwiseOpT = 758,
  kGraphHandle = 800,
  kGraphOps = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kMatmulType = 1500,
  kMatmulOpA = 1520,
  kMatmulOpB = 1521,
  kMatmulOpC = 1522,
  kMatmulOpDesc = 1523,
  kReductionOperator = 1600,
  kReductionType = 1601,
  kReductionOpX = 1610,
  kReductionOpY = 1611,
  kReductionOpDesc = 1612,
};

// CUDNN_DATA_...
enum DataType : int { kFloat = 0, kInt32 = 4, kBfloat16 = 9, kBoolean = 11 };

// CUDNN_POINTWISE_...
enum Pointwise : int {
  kAdd = 0,
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kCmpGe = 303,
  kGenIndex = 501,
  kBinarySelect = 601,
};

// CUDNN_REDUCE_TENSOR_...
enum Reduce : int { kReduceAdd = 0, kReduceMax = 3 };

inline constexpr int kHeurModeA = 3;  // CUDNN_HEUR_MODE_A

}  // namespace cudnn
}  // namespace prefix::ops::gpu
