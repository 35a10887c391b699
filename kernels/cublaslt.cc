#include "cublaslt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/status.h"

namespace prefix::ops::gpu {

// What cublasLt.h calls these is in the comments.
struct CublasLt::Functions {
  // cublasLtMatmulHeuristicResult_t
  struct Heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  };
  static_assert(sizeof(Heuristic) == 64 + 8 + 4 + 4 + 16);

  int (*create)(void**);
  int (*destroy)(void*);
  int (*desc_create)(void**, int compute, int scale_type);
  int (*desc_destroy)(void*);
  int (*desc_set)(void*, int attribute, const void*, size_t);
  int (*layout_create)(void**, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*layout_destroy)(void*);
  int (*preference_create)(void**);
  int (*preference_destroy)(void*);
  int (*preference_set)(void*, int attribute, const void*, size_t);
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*);
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                const void*, void*, void*, void*, const void*, void*, size_t, cudaStream_t);
};

namespace {

constexpr int kSuccess = 0;                           // CUBLAS_STATUS_SUCCESS
constexpr int kCompute32F = 68;                       // CUBLAS_COMPUTE_32F
constexpr int kR32F = 0;                              // CUDA_R_32F
constexpr int kR16Bf = 14;                            // CUDA_R_16BF
constexpr int32_t kTransposed = 1;                    // CUBLAS_OP_T
constexpr int kDescTransA = 3;                        // CUBLASLT_MATMUL_DESC_TRANSA
constexpr int kDescEpilogue = 7;                      // CUBLASLT_MATMUL_DESC_EPILOGUE
constexpr int kDescBias = 8;                          // CUBLASLT_MATMUL_DESC_BIAS_POINTER
constexpr int kDescBiasType = 26;                     // CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
constexpr uint32_t kEpilogueBias = 4;                 // CUBLASLT_EPILOGUE_BIAS
constexpr int kPreferenceWorkspace = 1;               // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
constexpr int kPreferenceReduction = 3;               // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
constexpr int kPreferenceAlignment[] = {5, 6, 7, 8};  // ..._MIN_ALIGNMENT_{A,B,C,D}_BYTES

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// Rows for which the algorithm of an invariant product is chosen.
constexpr int64_t kInvariantRows = 1024;
constexpr size_t kMostAlgorithms = 16384;

// Destroys what was created when the scope ends.
class Owned {
 public:
  explicit Owned(int (*destroy)(void*)) : destroy_(destroy) {}
  ~Owned() {
    if (object_) destroy_(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  void** out() { return &object_; }
  void* get() const { return object_; }

 private:
  int (*destroy_)(void*);
  void* object_ = nullptr;
};

void* open_library(std::string& why) {
  std::vector<std::string> names;
  // Not in a program that runs with more rights than its user has.
  if (const char* file = secure_getenv("LIBPREFIX_CUBLASLT")) names.push_back(file);
  names.insert(names.end(), {"libcublasLt.so.13", "libcublasLt.so"});
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = secure_getenv(variable))
      names.push_back(std::string(home) + "/lib64/libcublasLt.so.13");
  names.push_back("/usr/local/cuda/lib64/libcublasLt.so.13");
  for (const std::string& name : names)
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const text = dlerror();
  why = cat("cannot open libcublasLt.so.13, a part of the CUDA toolkit (the environment's ",
            "LIBPREFIX_CUBLASLT can name the file): ", text ? text : "no reason is known");
  return nullptr;
}

}  // namespace

CublasLt::~CublasLt() {
  if (handle_) functions_->destroy(handle_);
  cudaFree(workspace_);
  delete functions_;
}

bool CublasLt::open(bool invariant, std::string& why) {
  invariant_ = invariant;
  void* const library = open_library(why);  // stays open: other users may have it too
  if (!library) return false;
  functions_ = new Functions;
  Functions& f = *functions_;
  const auto find = [&](auto*& function, const char* name) {
    void* const address = dlsym(library, name);
    std::memcpy(&function, &address, sizeof address);
    if (!address && why.empty()) why = cat("libcublasLt has no function ", name);
  };
  find(f.create, "cublasLtCreate");
  find(f.destroy, "cublasLtDestroy");
  find(f.desc_create, "cublasLtMatmulDescCreate");
  find(f.desc_destroy, "cublasLtMatmulDescDestroy");
  find(f.desc_set, "cublasLtMatmulDescSetAttribute");
  find(f.layout_create, "cublasLtMatrixLayoutCreate");
  find(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(f.preference_create, "cublasLtMatmulPreferenceCreate");
  find(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(f.matmul, "cublasLtMatmul");
  if (!why.empty()) return false;
  if (const int status = f.create(&handle_); status != kSuccess) {
    why = cat("cublasLtCreate answered ", status);
    return false;
  }
  if (cudaMalloc(&workspace_, kWorkspaceBytes) != cudaSuccess) {
    cudaGetLastError();
    why = cat("no device memory for a workspace of ", kWorkspaceBytes, " bytes");
    return false;
  }
  return true;
}

// cuBLAS thinks in columns: row-major y[rows, n] is column-major D[n, rows], and
//   D = A^T B,  A = w as [k, n] with ld_w,  B = x as [k, rows] with ld_x.
CublasLt::Answer CublasLt::gemm(const GemmArgs& a, cudaStream_t stream, std::string& why) {
  const Functions& f = *functions_;
  const int type = a.element == Element::kBf16 ? kR16Bf : kR32F;
  Owned desc(f.desc_destroy), left(f.layout_destroy), right(f.layout_destroy),
      out(f.layout_destroy);
  int status = f.desc_create(desc.out(), kCompute32F, kR32F);
  const auto then = [&](auto&& call) {
    if (status == kSuccess) status = call();
  };
  const auto set = [&](int attribute, const auto& value) {
    then([&] { return f.desc_set(desc.get(), attribute, &value, sizeof value); });
  };
  set(kDescTransA, kTransposed);
  if (a.bias) {
    set(kDescEpilogue, kEpilogueBias);
    set(kDescBias, a.bias);
    set(kDescBiasType, int32_t{kR32F});
  }
  const auto layout = [&](Owned& to, int element, int64_t rows, int64_t columns, int64_t ld) {
    then([&] {
      return f.layout_create(to.out(), element, static_cast<uint64_t>(rows),
                             static_cast<uint64_t>(columns), ld);
    });
  };
  layout(left, type, a.k, a.n, a.ld_w);
  layout(right, type, a.k, a.rows, a.ld_x);
  layout(out, kR32F, a.n, a.rows, a.ld_y);

  if (algorithms_.size() >= kMostAlgorithms) algorithms_.clear();
  const Key key(invariant_ ? 0 : a.rows, a.n, a.k, a.ld_w, a.ld_x, a.ld_y, a.add, a.bias != nullptr,
                static_cast<int>(a.element));
  auto found = algorithms_.find(key);
  if (status == kSuccess && found == algorithms_.end()) {
    Owned preference(f.preference_destroy), nominal_right(f.layout_destroy),
        nominal_out(f.layout_destroy);
    void* heuristic_right = right.get();
    void* heuristic_out = out.get();
    then([&] { return f.preference_create(preference.out()); });
    const auto prefer = [&](int attribute, const auto& value) {
      then([&] { return f.preference_set(preference.get(), attribute, &value, sizeof value); });
    };
    prefer(kPreferenceWorkspace, uint64_t{kWorkspaceBytes});
    // Rows of a panel, of a selection: pointers are aligned to 64 bytes, not to 256.
    for (const int attribute : kPreferenceAlignment) prefer(attribute, uint32_t{16});
    if (invariant_) {
      prefer(kPreferenceReduction, uint32_t{0});
      layout(nominal_right, type, a.k, kInvariantRows, a.ld_x);
      layout(nominal_out, kR32F, a.n, kInvariantRows, a.ld_y);
      heuristic_right = nominal_right.get();
      heuristic_out = nominal_out.get();
    }
    Functions::Heuristic best{};
    int count = 0;
    int answer = kSuccess;
    then([&] {
      answer = f.heuristic(handle_, desc.get(), left.get(), heuristic_right, heuristic_out,
                           heuristic_out, preference.get(), 1, &best, &count);
      return kSuccess;  // "not supported" is an answer
    });
    Algorithm algorithm{};
    algorithm.found = answer == kSuccess && count > 0 && best.status == kSuccess;
    std::memcpy(algorithm.data, best.algorithm, sizeof algorithm.data);
    algorithm.workspace = best.workspace;
    if (status == kSuccess) found = algorithms_.emplace(key, algorithm).first;
  }
  if (status == kSuccess && !found->second.found) return Answer::kUnsupported;
  const float alpha = 1;
  const float beta = a.add ? 1.0f : 0.0f;
  then([&] {
    return f.matmul(handle_, desc.get(), &alpha, a.w, left.get(), a.x, right.get(), &beta, a.y,
                    out.get(), a.y, out.get(), found->second.data, workspace_,
                    found->second.workspace, stream);
  });
  if (status == kSuccess) return Answer::kDone;
  why = cat("cuBLASLt answered ", status, " for y[", a.rows, ", ", a.n, "] = x w^T with k = ", a.k);
  return Answer::kFailed;
}

}  // namespace prefix::ops::gpu
