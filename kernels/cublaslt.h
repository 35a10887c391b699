// The products of the backend by cuBLASLt: y = x w^T, f32 sums (GemmArgs).
//
//   GemmArgs ──> Shape: descriptor, layouts, algorithms   one a (rows, n, k, strides, bias, types)
//                  │ invariant
//                  └──> Choice: one algorithm             one a (k, strides, bias, types)
//
// `invariant` promises that a row has the same bits whatever rows are beside it. So the algorithm
// belongs to k: the same for all row counts, for the whole head and for a panel of it, and without
// sums across blocks. It is taken from the candidates only if it accepts a list of row counts;
// where it refuses another count nevertheless, the rows are done in two parts, and the columns of
// another matrix that it refuses, never by other means.
//
// Knows no CUDA: the tests drive it with a library that refuses what they want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cublaslt_api.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// One thread at a time.
class CublasLt {
 public:
  static constexpr size_t kWorkspaceBytes = kGemmWorkspaceBytes;

  CublasLt() = default;
  ~CublasLt() { close(); }
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // False when the library is not there or does not work; `why` says so. `workspace`: device memory
  // that lives until close().
  bool open(bool invariant, void* workspace, std::string& why);
  void close();
  // As close(), when the process ends and the library below is gone: touches nothing of it.
  void abandon();
  // As cublasLtGetVersion() has it: 130100.
  int64_t version() const { return version_; }

  enum class Answer {
    kDone,
    kUnsupported,  // cuBLASLt does not do this shape, and never will
    kRefused,      // invariant: it refuses the product, in parts too
    kNoMemory,
    kFailed,
  };
  Answer gemm(const GemmArgs& args, void* stream, std::string& why);

 private:
  using Algorithm = CublasLtApi::Algorithm;
  struct Destroy {
    int (*call)(void*);
    void operator()(void* object) const { call(object); }
  };
  using Object = std::unique_ptr<void, Destroy>;  // of the library
  // rows, n, k, ld_w, ld_x, ld_y, bias, elements of operands and result, whether with most tiles
  using ShapeKey = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, Element,
                              Element, bool>;
  enum class Cut { kNone, kRows, kColumns };
  struct Shape {
    Object desc, left, right, out;
    const float* bias = nullptr;        // that desc names
    std::vector<Algorithm> algorithms;  // best first; those that refused are gone
    Cut cut = Cut::kNone;               // invariant: refused as it is
  };
  // k, ld_w, ld_x, bias, elements of operands and result
  using ChoiceKey = std::tuple<int64_t, int64_t, int64_t, bool, Element, Element>;
  struct Choice {
    bool found = false;
    Algorithm algorithm{};
    std::map<int64_t, bool> accepted;  // by n
  };

  // These throw the status of a call that fails.
  Shape make_shape(const GemmArgs& args);
  Object make_layout(int type, int64_t rows, int64_t columns, int64_t ld);
  // What the heuristics propose for these layouts, best first, or that with most tiles.
  std::vector<Algorithm> propose(void* desc, const Object& left, const Object& right,
                                 const Object& out, int wanted, bool most_tiles);
  Choice choose(const GemmArgs& args, void* desc);
  // Whether the algorithm accepts all row counts of a matrix with n rows.
  bool accepts(const GemmArgs& args, void* desc, const Algorithm& algorithm, int64_t n);
  Answer answer_of(int status, const GemmArgs& args, std::string& why) const;
  Answer in_two_parts(const GemmArgs& args, Cut cut, void* stream, std::string& why);

  CublasLtApi api_{};
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  bool invariant_ = false;
  int64_t version_ = 0;
  std::map<ShapeKey, Shape> shapes_;
  std::map<ChoiceKey, Choice> choices_;
};

}  // namespace prefix::ops::gpu
