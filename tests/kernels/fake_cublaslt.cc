#include "kernels/fake_cublaslt.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "body/portable.h"
#include "cublaslt_api.h"

namespace prefix::ops::gpu {

FakeCublasLt& fake_cublaslt() {
  static FakeCublasLt fake;
  return fake;
}

namespace {

using namespace cublaslt;

// Everything that a handle can be.
struct Thing {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  std::map<int, std::vector<unsigned char>> attributes;
};

// Also those that a test means to leave behind.
std::set<std::unique_ptr<Thing>>& things() {
  static std::set<std::unique_ptr<Thing>> all;
  return all;
}

int make(void** out, const Thing& thing) {
  *out = things().insert(std::make_unique<Thing>(thing)).first->get();
  ++fake_cublaslt().created;
  ++fake_cublaslt().alive;
  return kSuccess;
}
int destroy(void* thing) {
  const auto found = std::find_if(things().begin(), things().end(),
                                  [&](const auto& owned) { return owned.get() == thing; });
  if (found == things().end()) {
    ++fake_cublaslt().mistakes;
    return kInvalidValue;
  }
  things().erase(found);
  --fake_cublaslt().alive;
  return kSuccess;
}
int set(void* thing, int attribute, const void* value, size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(value);
  static_cast<Thing*>(thing)->attributes[attribute].assign(from, from + bytes);
  return kSuccess;
}

// An attribute of the size that cublasLt.h gives it.
template <class T>
T get(const Thing& thing, int attribute, T otherwise) {
  const auto found = thing.attributes.find(attribute);
  if (found == thing.attributes.end()) return otherwise;
  if (found->second.size() != sizeof(T)) {
    ++fake_cublaslt().mistakes;
    return otherwise;
  }
  T value;
  std::memcpy(&value, found->second.data(), sizeof value);
  return value;
}

double element(const void* data, int type, int64_t index) {
  if (type == kR32F) return static_cast<const float*>(data)[index];
  const uint32_t bits = static_cast<const uint16_t*>(data)[index];
  return std::bit_cast<float>(bits << 16);
}

void put(void* data, int type, int64_t index, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == kR32F) {
    static_cast<float*>(data)[index] = rounded;
  } else {
    static_cast<uint16_t*>(data)[index] = to_bf16(rounded);
  }
}

// A [k, n] transposed, B [k, rows], C and D [n, rows], all of one k.
bool fits(const Thing& desc, const Thing& a, const Thing& b, const Thing& c, const Thing& d) {
  const auto wide = [](const Thing& m) { return m.ld >= static_cast<int64_t>(m.rows); };
  return get<int32_t>(desc, kDescTransA, 0) == kTransposed && a.rows == b.rows &&
         a.columns == d.rows && b.columns == d.columns && c.rows == d.rows && c.ld == d.ld &&
         a.type == b.type && (d.type == kR32F || d.type == a.type) && c.type == d.type && wide(a) &&
         wide(b) && wide(d);
}

int number_of(const CublasLtApi::Algorithm& algorithm) {
  return static_cast<int>(algorithm.data[0]) - 100;
}

}  // namespace
}  // namespace prefix::ops::gpu

using namespace prefix::ops::gpu;

extern "C" {

size_t cublasLtGetVersion() { return fake_cublaslt().version; }
int cublasLtCreate(void** out) { return make(out, {}); }
int cublasLtDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(void** out, int compute, int scale) {
  fake_cublaslt().mistakes += compute != kCompute32F || scale != kR32F;
  return make(out, {});
}
int cublasLtMatmulDescDestroy(void* desc) { return destroy(desc); }
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  return set(desc, attribute, value, bytes);
}
int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  return make(out, {type, rows, columns, ld, {}});
}
int cublasLtMatrixLayoutDestroy(void* layout) { return destroy(layout); }
int cublasLtMatmulPreferenceCreate(void** out) { return make(out, {}); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return destroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         size_t bytes) {
  return set(preference, attribute, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void* c, void* d,
                                   void* preference, int wanted, CublasLtApi::Heuristic* found,
                                   int* count) {
  FakeCublasLt& fake = fake_cublaslt();
  ++fake.heuristics;
  fake.reduction_mask = get<uint32_t>(*static_cast<Thing*>(preference), kPreferenceReduction, ~0u);
  fake.mistakes += get<uint64_t>(*static_cast<Thing*>(preference), kPreferenceWorkspace, 0) == 0;
  fake.mistakes += !fits(*static_cast<Thing*>(desc), *static_cast<Thing*>(a),
                         *static_cast<Thing*>(b), *static_cast<Thing*>(c), *static_cast<Thing*>(d));
  *count = 0;
  for (int i = 0; i < fake.algorithms && i < wanted; ++i) {
    found[i] = {};
    found[i].algorithm.data[0] = static_cast<uint64_t>(100 + i);
    found[i].workspace = fake.workspace;
    if (static_cast<size_t>(i) < fake.waves.size())
      found[i].waves = fake.waves[static_cast<size_t>(i)];
    ++*count;
  }
  return *count > 0 ? kSuccess : kNotSupported;
}

int cublasLtMatmulAlgoCheck(void*, void* desc, void* a, void* b, void* c, void* d,
                            const CublasLtApi::Algorithm* algorithm,
                            CublasLtApi::Heuristic* result) {
  FakeCublasLt& fake = fake_cublaslt();
  ++fake.checks;
  const Thing& out = *static_cast<Thing*>(d);
  if (!fits(*static_cast<Thing*>(desc), *static_cast<Thing*>(a), *static_cast<Thing*>(b),
            *static_cast<Thing*>(c), out)) {
    ++fake.mistakes;
    return kInvalidValue;
  }
  *result = {};
  result->workspace = fake.workspace;
  const bool refuses = fake.check_refuses &&
                       fake.check_refuses(number_of(*algorithm), static_cast<int64_t>(out.columns),
                                          static_cast<int64_t>(out.rows));
  return refuses ? fake.refusal : kSuccess;
}

int cublasLtMatmul(void*, void* desc_handle, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const CublasLtApi::Algorithm* algorithm, void*, size_t,
                   void*) {
  FakeCublasLt& fake = fake_cublaslt();
  if (fake.matmul_answer != 0) return fake.matmul_answer;
  const Thing& desc = *static_cast<Thing*>(desc_handle);
  const Thing& left = *static_cast<Thing*>(a_layout);
  const Thing& right = *static_cast<Thing*>(b_layout);
  const Thing& out = *static_cast<Thing*>(d_layout);
  if (!fits(desc, left, right, *static_cast<Thing*>(c_layout), out) || c != d) {
    ++fake.mistakes;
    return kInvalidValue;
  }
  const auto n = static_cast<int64_t>(out.rows), rows = static_cast<int64_t>(out.columns);
  if (fake.matmul_refuses && fake.matmul_refuses(number_of(*algorithm), rows, n)) {
    ++fake.refused;
    return fake.refusal;
  }
  fake.products.push_back({number_of(*algorithm), rows, n});
  const float* bias = nullptr;
  if (get<uint32_t>(desc, kDescEpilogue, 1) == kEpilogueBias) {
    bias = get<const float*>(desc, kDescBias, nullptr);
    fake.mistakes += get<int32_t>(desc, kDescBiasType, -1) != kR32F;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < static_cast<int64_t>(left.rows); ++i)
        sum += element(a, left.type, j * left.ld + i) * element(b, right.type, r * right.ld + i);
      const int64_t at = r * out.ld + j;
      const double old = *static_cast<const float*>(beta) == 0 ? 0 : element(d, out.type, at);
      put(d, out.type, at, *static_cast<const float*>(alpha) * sum + old + (bias ? bias[j] : 0));
    }
  }
  return kSuccess;
}

}  // extern "C"
