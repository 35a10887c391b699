#include "kernels/fake_cublaslt.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "body/rows.h"
#include "cublaslt_api.h"

namespace prefix::ops::gpu {

FakeCublasLt& fake_cublaslt() {
  static FakeCublasLt fake;
  return fake;
}

using namespace cublaslt;

// Everything that a handle can be.
struct Thing {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  std::map<int, std::vector<unsigned char>> attributes;
};

namespace {

// Also those that a test means to leave behind.
std::map<Thing*, std::unique_ptr<Thing>> things;

int make(Thing** out, const Thing& thing) {
  auto made = std::make_unique<Thing>(thing);
  *out = made.get();
  things[*out] = std::move(made);
  ++fake_cublaslt().created;
  ++fake_cublaslt().alive;
  return kSuccess;
}
int destroy(Thing* thing) {
  if (things.erase(thing) == 0) {
    ++fake_cublaslt().mistakes;
    return kInvalidValue;
  }
  --fake_cublaslt().alive;
  return kSuccess;
}
int set(Thing* thing, int attribute, const void* value, size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(value);
  thing->attributes[attribute].assign(from, from + bytes);
  return kSuccess;
}

// An attribute of the size that cublasLt.h gives it.
template <class T>
T get(const Thing* thing, int attribute, T otherwise) {
  const auto found = thing->attributes.find(attribute);
  if (found == thing->attributes.end()) return otherwise;
  if (found->second.size() != sizeof(T)) {
    ++fake_cublaslt().mistakes;
    return otherwise;
  }
  T value;
  std::memcpy(&value, found->second.data(), sizeof value);
  return value;
}

Element element_of(const Thing* matrix) {
  return matrix->type == kR32F ? Element::kF32 : Element::kBf16;
}

// A [k, n] transposed, B [k, rows], C and D [n, rows], all of one k.
bool fits(const Thing* desc, const Thing* a, const Thing* b, const Thing* c, const Thing* d) {
  const auto wide = [](const Thing* m) { return m->ld >= static_cast<int64_t>(m->rows); };
  const bool fit = get<int32_t>(desc, kDescTransA, 0) == kTransposed && a->rows == b->rows &&
                   a->columns == d->rows && b->columns == d->columns && c->rows == d->rows &&
                   c->ld == d->ld && a->type == b->type &&
                   (d->type == kR32F || d->type == a->type) && c->type == d->type && wide(a) &&
                   wide(b) && wide(d);
  if (!fit) ++fake_cublaslt().mistakes;
  return fit;
}

int number_of(const CublasLtApi::Algorithm* algorithm) {
  return static_cast<int>(algorithm->data[0]) - 100;
}
bool refuses(const FakeCublasLt::Refuses& asked, const CublasLtApi::Algorithm* algorithm,
             const Thing* out) {
  return asked && asked(number_of(algorithm), static_cast<int64_t>(out->columns),
                        static_cast<int64_t>(out->rows));
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return fake_cublaslt().version; }
int cublasLtCreate(Thing** out) { return make(out, {}); }
int cublasLtDestroy(Thing* handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(Thing** out, int compute, int scale) {
  fake_cublaslt().mistakes += compute != kCompute32F || scale != kR32F;
  return make(out, {});
}
int cublasLtMatmulDescDestroy(Thing* desc) { return destroy(desc); }
int cublasLtMatmulDescSetAttribute(Thing* desc, int attribute, const void* value, size_t bytes) {
  return set(desc, attribute, value, bytes);
}
int cublasLtMatrixLayoutCreate(Thing** out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  return make(out, {type, rows, columns, ld, {}});
}
int cublasLtMatrixLayoutDestroy(Thing* layout) { return destroy(layout); }
int cublasLtMatmulPreferenceCreate(Thing** out) { return make(out, {}); }
int cublasLtMatmulPreferenceDestroy(Thing* preference) { return destroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(Thing* preference, int attribute, const void* value,
                                         size_t bytes) {
  return set(preference, attribute, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void*, Thing* desc, Thing* a, Thing* b, Thing* c, Thing* d,
                                   Thing* preference, int wanted, CublasLtApi::Heuristic* found,
                                   int* count) {
  FakeCublasLt& fake = fake_cublaslt();
  ++fake.heuristics;
  fake.reduction_mask = get<uint32_t>(preference, kPreferenceReduction, ~0u);
  fake.mistakes += get<uint64_t>(preference, kPreferenceWorkspace, 0) == 0;
  fits(desc, a, b, c, d);
  *count = std::min(fake.algorithms, wanted);
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algorithm.data[0] = static_cast<uint64_t>(100 + i);
    found[i].workspace = fake.workspace;
    if (static_cast<size_t>(i) < fake.waves.size()) found[i].waves = fake.waves[i];
  }
  return *count > 0 ? kSuccess : kNotSupported;
}

int cublasLtMatmulAlgoCheck(void*, Thing* desc, Thing* a, Thing* b, Thing* c, Thing* d,
                            const CublasLtApi::Algorithm* algorithm,
                            CublasLtApi::Heuristic* result) {
  FakeCublasLt& fake = fake_cublaslt();
  ++fake.checks;
  if (!fits(desc, a, b, c, d)) return kInvalidValue;
  *result = {};
  result->workspace = fake.workspace;
  return refuses(fake.check_refuses, algorithm, d) ? fake.refusal : kSuccess;
}

int cublasLtMatmul(void*, Thing* desc, const float* alpha, const void* a, Thing* left,
                   const void* b, Thing* right, const float* beta, const void* c, Thing* old,
                   void* d, Thing* out, const CublasLtApi::Algorithm* algorithm, void*, size_t,
                   void*) {
  FakeCublasLt& fake = fake_cublaslt();
  if (fake.matmul_answer != 0) return fake.matmul_answer;
  if (!fits(desc, left, right, old, out)) return kInvalidValue;
  fake.mistakes += c != d;
  if (refuses(fake.matmul_refuses, algorithm, out)) {
    ++fake.refused;
    return fake.refusal;
  }
  const auto n = static_cast<int64_t>(out->rows), rows = static_cast<int64_t>(out->columns);
  fake.products.push_back({number_of(algorithm), rows, n});
  const float* bias = nullptr;
  if (get<uint32_t>(desc, kDescEpilogue, 1) == kEpilogueBias) {
    bias = get<const float*>(desc, kDescBias, nullptr);
    fake.mistakes += get<int32_t>(desc, kDescBiasType, -1) != kR32F;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < static_cast<int64_t>(left->rows); ++i)
        sum += static_cast<double>(load_element(a, j * left->ld + i, element_of(left))) *
               load_element(b, r * right->ld + i, element_of(right));
      const int64_t at = r * out->ld + j;
      const double before = *beta == 0 ? 0 : load_element(d, at, element_of(out));
      store_element(d, at, element_of(out),
                    static_cast<float>(*alpha * sum + before + (bias ? bias[j] : 0)));
    }
  }
  return kSuccess;
}

}  // extern "C"

}  // namespace prefix::ops::gpu
