#include "cublaslt.h"

#include <algorithm>
#include <bit>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

using namespace cublaslt;

// Candidates of a shape: the second is for when the first is refused after all.
constexpr int kCandidates = 4;
constexpr int kInvariantCandidates = 16;
// The product that an invariant algorithm is proposed for, and the row counts that it must accept:
// the powers of two that in_two_parts() comes to, and their neighbours.
constexpr int64_t kNominalRows = 1024;
constexpr int64_t kNominalColumns = 4096;
constexpr int64_t kRowCounts[] = {1, 2, 4, 7, 8, 16, 17, 32, 64, 65, 128, 256, 1024, 8192};
// Columns of a panel of the head (PackedWeights::panel_of).
constexpr int64_t kPanel = 32;
constexpr size_t kMaxShapes = 8192;

// Adding to what is there moves 8 bytes an element, which takes as long as products with a short k.
// The more tiles, the more of it passes beside them: of the first candidates on an H100 the one with
// most is faster than the first (16384 x 1024 x 2048: 605 against 544 TFLOP/s in one call of the
// program that measures, 575 against 499 in another).
constexpr int64_t kShortK = 3072;
constexpr int64_t kManyRows = 2048;
bool is_mostly_adding(const GemmArgs& a) {
  return a.output == Output::kF32Add && a.k <= kShortK && a.rows >= kManyRows;
}

bool is_refusal(int status) {
  return status == kNotSupported || status == kInvalidValue || status == kArchMismatch;
}

int type_of(Element element) { return element == Element::kBf16 ? kR16Bf : kR32F; }
Element result_of(const GemmArgs& a) { return element_of(a.output, a.element); }

struct Failure {
  int status;
};
void must(int status) {
  if (status != kSuccess) throw Failure{status};
}
template <class Object, class Create, class... Args>
Object create(Create call, int (*destroy)(void*), Args... args) {
  void* made = nullptr;
  must(call(&made, args...));
  return Object(made, {destroy});
}

}  // namespace

bool CublasLt::open(bool invariant, void* workspace, std::string& why) {
  invariant_ = invariant;
  workspace_ = workspace;
  if (!open_cublaslt(api_, why)) return false;
  version_ = static_cast<int64_t>(api_.version());
  if (const int status = api_.create(&handle_); status != kSuccess) {
    handle_ = nullptr;
    why = cat("cublasLtCreate answered ", status);
    return false;
  }
  return true;
}

void CublasLt::close() {
  shapes_.clear();
  choices_.clear();
  if (handle_) api_.destroy(handle_);
  handle_ = nullptr;
}

void CublasLt::abandon() {
  for (auto& [key, shape] : shapes_)
    for (Object* object : {&shape.desc, &shape.left, &shape.right, &shape.out}) object->release();
  handle_ = nullptr;
}

CublasLt::Object CublasLt::make_layout(int type, int64_t rows, int64_t columns, int64_t ld) {
  return create<Object>(api_.layout_create, api_.layout_destroy, type, static_cast<uint64_t>(rows),
                        static_cast<uint64_t>(columns), ld);
}

// cuBLAS thinks in columns: row-major y[rows, n] is column-major D[n, rows], and
//   D = A^T B,  A = w as [k, n] with ld_w,  B = x as [k, rows] with ld_x.
CublasLt::Shape CublasLt::make_shape(const GemmArgs& a) {
  Shape shape;
  shape.desc = create<Object>(api_.desc_create, api_.desc_destroy, kCompute32F, kR32F);
  void* const desc = shape.desc.get();
  const auto set = [&](int attribute, const auto& value) {
    must(api_.desc_set(desc, attribute, &value, sizeof value));
  };
  set(kDescTransA, kTransposed);
  if (a.bias) {
    set(kDescEpilogue, kEpilogueBias);
    set(kDescBias, a.bias);
    set(kDescBiasType, int32_t{kR32F});
    shape.bias = a.bias;
  }
  const int type = type_of(a.element);
  shape.left = make_layout(type, a.k, a.n, a.ld_w);
  shape.right = make_layout(type, a.k, a.rows, a.ld_x);
  shape.out = make_layout(type_of(result_of(a)), a.n, a.rows, a.ld_y);
  if (!invariant_) {
    shape.algorithms =
        propose(desc, shape.left, shape.right, shape.out, kCandidates, is_mostly_adding(a));
    return shape;
  }
  Choice& choice =
      choices_[ChoiceKey(a.k, a.ld_w, a.ld_x, a.bias != nullptr, a.element, result_of(a))];
  if (choice.accepted.empty()) choice = choose(a, desc);
  if (!choice.found) return shape;
  auto accepted = choice.accepted.find(a.n);
  if (accepted == choice.accepted.end())
    accepted = choice.accepted.emplace(a.n, accepts(a, desc, choice.algorithm, a.n)).first;
  if (accepted->second) {
    shape.algorithms.push_back(choice.algorithm);
  } else if (a.n > kPanel) {
    shape.cut = Cut::kColumns;
  }
  return shape;
}

std::vector<CublasLtApi::Algorithm> CublasLt::propose(void* desc, const Object& left,
                                                      const Object& right, const Object& out,
                                                      int wanted, bool most_tiles) {
  const auto preference = create<Object>(api_.preference_create, api_.preference_destroy);
  const auto prefer = [&](int attribute, const auto& value) {
    must(api_.preference_set(preference.get(), attribute, &value, sizeof value));
  };
  prefer(kPreferenceWorkspace, uint64_t{kWorkspaceBytes});
  // Rows of a panel, of a selection: pointers are aligned to 64 bytes, not to 256.
  for (const int attribute : kPreferenceAlignment) prefer(attribute, uint32_t{16});
  if (invariant_) prefer(kPreferenceReduction, uint32_t{0});
  CublasLtApi::Heuristic found[kInvariantCandidates] = {};
  int count = 0;
  // "Not supported" is an answer: there is no candidate.
  if (api_.heuristic(handle_, desc, left.get(), right.get(), out.get(), out.get(), preference.get(),
                     wanted, found, &count) != kSuccess)
    return {};
  if (most_tiles) {
    const auto most = std::max_element(
        found, found + count, [](const auto& a, const auto& b) { return a.waves < b.waves; });
    std::rotate(found, most, std::min(most + 1, found + count));
  }
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i)
    if (found[i].status == kSuccess) algorithms.push_back(found[i].algorithm);
  return algorithms;
}

CublasLt::Choice CublasLt::choose(const GemmArgs& a, void* desc) {
  const int type = type_of(a.element);
  const Object left = make_layout(type, a.k, kNominalColumns, a.ld_w);
  const Object right = make_layout(type, a.k, kNominalRows, a.ld_x);
  const Object out =
      make_layout(type_of(result_of(a)), kNominalColumns, kNominalRows, kNominalColumns);
  Choice choice;
  for (const Algorithm& candidate : propose(desc, left, right, out, kInvariantCandidates, false)) {
    choice.found = accepts(a, desc, candidate, a.n) && accepts(a, desc, candidate, kPanel);
    choice.algorithm = candidate;
    if (choice.found) break;
  }
  choice.accepted[a.n] = choice.accepted[kPanel] = choice.found;
  return choice;
}

bool CublasLt::accepts(const GemmArgs& a, void* desc, const Algorithm& algorithm, int64_t n) {
  const int type = type_of(a.element);
  const Object left = make_layout(type, a.k, n, a.ld_w);
  return std::ranges::all_of(kRowCounts, [&](int64_t rows) {
    const Object right = make_layout(type, a.k, rows, a.ld_x);
    const Object out = make_layout(type_of(result_of(a)), n, rows, n == a.n ? a.ld_y : n);
    CublasLtApi::Heuristic result{};
    const int answer = api_.check(handle_, desc, left.get(), right.get(), out.get(), out.get(),
                                  &algorithm, &result);
    return answer == kSuccess && result.status == kSuccess && result.workspace <= kWorkspaceBytes;
  });
}

CublasLt::Answer CublasLt::answer_of(int status, const GemmArgs& a, std::string& why) const {
  why = cat("cuBLASLt answered ", status, " for y[", a.rows, ", ", a.n, "] = x w^T with k = ", a.k);
  return status == kAllocFailed ? Answer::kNoMemory : Answer::kFailed;
}

CublasLt::Answer CublasLt::gemm(const GemmArgs& a, void* stream, std::string& why) {
  const ShapeKey key(a.rows, a.n, a.k, a.ld_w, a.ld_x, a.ld_y, a.bias != nullptr, a.element,
                     result_of(a), is_mostly_adding(a));
  auto found = shapes_.find(key);
  if (found == shapes_.end()) {
    if (shapes_.size() >= kMaxShapes) shapes_.clear();
    try {
      found = shapes_.emplace(key, make_shape(a)).first;
    } catch (const Failure& f) {
      return is_refusal(f.status) ? Answer::kUnsupported : answer_of(f.status, a, why);
    }
  }
  Shape& shape = found->second;
  if (shape.cut != Cut::kNone) return in_two_parts(a, shape.cut, stream, why);
  if (shape.algorithms.empty()) return Answer::kUnsupported;
  if (a.bias != shape.bias) {
    const int status = api_.desc_set(shape.desc.get(), kDescBias, &a.bias, sizeof a.bias);
    if (status != kSuccess) return answer_of(status, a, why);
    shape.bias = a.bias;
  }
  const float alpha = 1;
  const float beta = a.output == Output::kF32Add ? 1.0f : 0.0f;
  while (!shape.algorithms.empty()) {
    const int status =
        api_.matmul(handle_, shape.desc.get(), &alpha, a.w, shape.left.get(), a.x,
                    shape.right.get(), &beta, a.y, shape.out.get(), a.y, shape.out.get(),
                    &shape.algorithms.front(), workspace_, kWorkspaceBytes, stream);
    if (status == kSuccess) return Answer::kDone;
    if (!is_refusal(status)) return answer_of(status, a, why);
    if (invariant_) {
      shape.cut = a.rows > 1 ? Cut::kRows : Cut::kColumns;
      return in_two_parts(a, shape.cut, stream, why);
    }
    shape.algorithms.erase(shape.algorithms.begin());
  }
  return Answer::kUnsupported;
}

// By the same algorithm: the sums over k stay as they are. Columns are cut at whole panels.
CublasLt::Answer CublasLt::in_two_parts(const GemmArgs& a, Cut cut, void* stream,
                                        std::string& why) {
  const bool columns = cut == Cut::kColumns;
  const auto half = [](int64_t count) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
  };
  const auto result_at = [&](int64_t i) {
    return static_cast<unsigned char*>(a.y) + i * element_bytes(result_of(a));
  };
  const auto refused = [&] {
    answer_of(kNotSupported, a, why);
    why += "; invariant=true allows no other way";
    return Answer::kRefused;
  };
  if (columns && a.n <= kPanel) return refused();
  GemmArgs first = a, second = a;
  if (columns) {
    first.n = half(a.n);
    second.n = a.n - first.n;
    second.w = static_cast<const unsigned char*>(a.w) + first.n * a.ld_w * element_bytes(a.element);
    second.y = result_at(first.n);
    if (a.bias) second.bias = a.bias + first.n;
  } else {
    first.rows = half(a.rows);
    second.rows = a.rows - first.rows;
    second.x =
        static_cast<const unsigned char*>(a.x) + first.rows * a.ld_x * element_bytes(a.element);
    second.y = result_at(first.rows * a.ld_y);
  }
  Answer answer = gemm(first, stream, why);
  if (answer == Answer::kDone) answer = gemm(second, stream, why);
  // One half may be there already: the slow kernel cannot do the whole any more.
  return answer == Answer::kUnsupported ? refused() : answer;
}

}  // namespace prefix::ops::gpu
