#include "kernels/fake_cudnn.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cudnn_api.h"

namespace prefix::ops::gpu {

FakeCudnn& fake_cudnn() {
  static FakeCudnn fake;
  return fake;
}

namespace {

using namespace cudnn;

struct Thing;
struct Value {
  int type = 0;
  int64_t count = 0;
  std::vector<unsigned char> bytes;
};
struct Thing {
  int type = -1;  // of a descriptor; -1: a handle
  bool finalized = false;
  std::map<int, Value> attributes;
  int engine = 0;
  const Thing* graph = nullptr;
};

constexpr int kBadParameter = 2000;
constexpr int64_t kAny = -1;

std::map<const void*, std::unique_ptr<Thing>>& things() {
  static std::map<const void*, std::unique_ptr<Thing>> all;
  return all;
}

int mistake(const std::string& what) {
  fake_cudnn().wrong.push_back(what);
  return kBadParameter;
}

Thing* known(const void* handle) {
  const auto found = things().find(handle);
  return found == things().end() ? nullptr : found->second.get();
}

int make(int type, void** out) {
  auto thing = std::make_unique<Thing>();
  thing->type = type;
  *out = thing.get();
  things()[*out] = std::move(thing);
  ++fake_cudnn().alive;
  return kSuccess;
}
int destroy(void* handle) {
  if (!known(handle)) return mistake("something unknown is destroyed");
  things().erase(handle);
  --fake_cudnn().alive;
  return kSuccess;
}

// --- what attributes there are -------------------------------------------------------------------

struct Rule {
  int descriptor, attribute, type;
  int64_t count;  // kAny: one or more
  bool needed;
  int of = -1;  // what kind of descriptor the value is
};

constexpr Rule kRules[] = {
    {kTensor, kTensorType, kTypeDataType, 1, true},
    {kTensor, kTensorDimensions, kTypeInt64, 4, true},
    {kTensor, kTensorStrides, kTypeInt64, 4, true},
    {kTensor, kTensorId, kTypeInt64, 1, true},
    {kTensor, kTensorAlignment, kTypeInt64, 1, true},
    {kTensor, kTensorIsVirtual, kTypeBoolean, 1, false},
    {kTensor, kTensorIsByValue, kTypeBoolean, 1, false},
    {kMatmul, kMatmulType, kTypeDataType, 1, true},
    {kMatmulOperation, kMatmulOpA, kTypeDescriptor, 1, true, kTensor},
    {kMatmulOperation, kMatmulOpB, kTypeDescriptor, 1, true, kTensor},
    {kMatmulOperation, kMatmulOpC, kTypeDescriptor, 1, true, kTensor},
    {kMatmulOperation, kMatmulOpDesc, kTypeDescriptor, 1, true, kMatmul},
    {cudnn::kReduction, kReductionOperator, kTypeReductionOperator, 1, true},
    {cudnn::kReduction, kReductionType, kTypeDataType, 1, true},
    {kReductionOperation, kReductionOpX, kTypeDescriptor, 1, true, kTensor},
    {kReductionOperation, kReductionOpY, kTypeDescriptor, 1, true, kTensor},
    {kReductionOperation, kReductionOpDesc, kTypeDescriptor, 1, true, cudnn::kReduction},
    {cudnn::kPointwise, kPointwiseMode, kTypePointwiseMode, 1, true},
    {cudnn::kPointwise, kPointwiseMathPrec, kTypeDataType, 1, true},
    {cudnn::kPointwise, kPointwiseAxis, kTypeInt64, 1, false},
    {kPointwiseOperation, kPointwiseOpDesc, kTypeDescriptor, 1, true, cudnn::kPointwise},
    {kPointwiseOperation, kPointwiseOpX, kTypeDescriptor, 1, true, kTensor},
    {kPointwiseOperation, kPointwiseOpB, kTypeDescriptor, 1, false, kTensor},
    {kPointwiseOperation, kPointwiseOpT, kTypeDescriptor, 1, false, kTensor},
    {kPointwiseOperation, kPointwiseOpY, kTypeDescriptor, 1, true, kTensor},
    {kOperationGraph, kGraphHandle, kTypeHandle, 1, true},
    {kOperationGraph, kGraphOps, kTypeDescriptor, kAny, true},
    {kEngineHeuristic, kHeuristicGraph, kTypeDescriptor, 1, true, kOperationGraph},
    {kEngineHeuristic, kHeuristicMode, kTypeHeurMode, 1, true},
    {kExecutionPlan, kPlanHandle, kTypeHandle, 1, true},
    {kExecutionPlan, kPlanConfig, kTypeDescriptor, 1, true, kEngineConfig},
    {kVariantPack, kPackIds, kTypeInt64, kAny, true},
    {kVariantPack, kPackPointers, kTypeVoidPtr, kAny, true},
    {kVariantPack, kPackWorkspace, kTypeVoidPtr, 1, false},
};

size_t size_of(int type) {
  switch (type) {
    case kTypeBoolean:
      return sizeof(bool);
    case kTypeInt64:
      return sizeof(int64_t);
    case kTypeHandle:
    case kTypeVoidPtr:
    case kTypeDescriptor:
      return sizeof(void*);
    default:
      return sizeof(int);  // enumerations
  }
}

template <class T>
std::vector<T> list_of(const Thing& thing, int attribute) {
  const auto found = thing.attributes.find(attribute);
  if (found == thing.attributes.end()) return {};
  std::vector<T> values(static_cast<size_t>(found->second.count));
  if constexpr (std::is_same_v<T, bool>) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = found->second.bytes[i] != 0;
  } else {
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
  }
  return values;
}
template <class T>
T one_of(const Thing& thing, int attribute, T otherwise = {}) {
  const std::vector<T> values = list_of<T>(thing, attribute);
  return values.empty() ? otherwise : values[0];
}
const Thing* thing_of(const Thing& thing, int attribute) {
  return static_cast<const Thing*>(one_of<void*>(thing, attribute));
}

int set(void* handle, int attribute, int type, int64_t count, const void* values) {
  Thing* const thing = known(handle);
  if (!thing || thing->type < 0) return mistake("an attribute of something unknown");
  const std::string name = std::to_string(thing->type) + "." + std::to_string(attribute);
  if (thing->finalized) return mistake(name + " is set after it was finalized");
  const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) {
    return r.descriptor == thing->type && r.attribute == attribute;
  });
  if (rule == std::end(kRules)) return mistake(name + " is no attribute of this descriptor");
  if (rule->type != type) return mistake(name + " has another type");
  if (rule->count == kAny ? count < 1 : count != rule->count)
    return mistake(name + ": wrong count");
  Value& v = thing->attributes[attribute];
  v.type = type;
  v.count = count;
  const auto* const from = static_cast<const unsigned char*>(values);
  v.bytes.assign(from, from + static_cast<size_t>(count) * size_of(type));
  if (type == kTypeDescriptor)
    for (void* const used : list_of<void*>(*thing, attribute)) {
      const Thing* const other = known(used);
      if (!other || !other->finalized) return mistake(name + " is not finalized");
      if (rule->of >= 0 && other->type != rule->of) return mistake(name + " is of another kind");
    }
  if (type == kTypeHandle && (!known(one_of<void*>(*thing, attribute)) ||
                              known(one_of<void*>(*thing, attribute))->type != -1))
    return mistake(name + " is no handle");
  return kSuccess;
}

// --- tensors and graphs --------------------------------------------------------------------------

using Four = std::array<int64_t, 4>;

struct Tensor {
  explicit Tensor(const Thing& t)
      : id(one_of<int64_t>(t, kTensorId)),
        type(one_of<int>(t, kTensorType)),
        inside(one_of<bool>(t, kTensorIsVirtual)),
        by_value(one_of<bool>(t, kTensorIsByValue)) {
    const std::vector<int64_t> d = list_of<int64_t>(t, kTensorDimensions);
    const std::vector<int64_t> s = list_of<int64_t>(t, kTensorStrides);
    std::copy(d.begin(), d.end(), dims.begin());
    std::copy(s.begin(), s.end(), strides.begin());
  }
  int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  int64_t id;
  int type;
  bool inside, by_value;
  Four dims{}, strides{};
};

struct Operation {
  explicit Operation(const Thing& t) : type(t.type) {
    const auto tensor = [&](int attribute) -> std::optional<Tensor> {
      const Thing* const d = thing_of(t, attribute);
      return d ? std::optional<Tensor>(*d) : std::nullopt;
    };
    if (type == kMatmulOperation) {
      x = tensor(kMatmulOpA), b = tensor(kMatmulOpB), y = tensor(kMatmulOpC);
      precision = one_of<int>(*thing_of(t, kMatmulOpDesc), kMatmulType);
    } else if (type == kReductionOperation) {
      x = tensor(kReductionOpX), y = tensor(kReductionOpY);
      mode = one_of<int>(*thing_of(t, kReductionOpDesc), kReductionOperator);
      precision = one_of<int>(*thing_of(t, kReductionOpDesc), kReductionType);
    } else {
      x = tensor(kPointwiseOpX), b = tensor(kPointwiseOpB), t_ = tensor(kPointwiseOpT);
      y = tensor(kPointwiseOpY);
      const Thing& how = *thing_of(t, kPointwiseOpDesc);
      mode = one_of<int>(how, kPointwiseMode);
      precision = one_of<int>(how, kPointwiseMathPrec);
      axis = one_of<int64_t>(how, kPointwiseAxis, -1);
    }
  }
  int type, mode = -1, precision = -1;
  int64_t axis = -1;
  std::optional<Tensor> x, b, t_, y;
  std::vector<const Tensor*> inputs() const {
    std::vector<const Tensor*> all = {&*x};
    if (b) all.push_back(&*b);
    if (t_) all.push_back(&*t_);
    return all;
  }
};

std::vector<Operation> operations_of(const Thing& graph) {
  std::vector<Operation> all;
  for (void* const op : list_of<void*>(graph, kGraphOps))
    all.emplace_back(*static_cast<const Thing*>(op));
  return all;
}

// Each dimension is the same, or one.
bool spreads(const Four& from, const Four& to) {
  for (size_t i = 0; i < 4; ++i)
    if (from[i] != to[i] && from[i] != 1) return false;
  return true;
}

std::string check(const Operation& op) {
  const Four& y = op.y->dims;
  if (op.type == kMatmulOperation) {
    const Four &a = op.x->dims, &b = op.b->dims;
    if (a[2] != y[2] || b[3] != y[3] || a[3] != b[2]) return "matmul: the sizes do not fit";
    if (a[1] != y[1] || y[1] % b[1] != 0) return "matmul: the heads do not fit";
    if (op.x->type != op.b->type || op.x->type != kBfloat16) return "matmul: other types";
    return op.precision == kFloat ? "" : "matmul: sums are not f32";
  }
  if (op.type == kReductionOperation) {
    const Four& x = op.x->dims;
    return y[0] == x[0] && y[1] == x[1] && y[2] == x[2] && y[3] == 1 ? "" : "reduction: the sizes";
  }
  if (op.x->dims != y && op.mode != kGenIndex) return "pointwise: the sizes do not fit";
  if (op.b && !spreads(op.b->dims, y)) return "pointwise: the second operand does not fit";
  const bool two = op.mode != kExp && op.mode != kLog && op.mode != kGenIndex;
  if (two != op.b.has_value()) return "pointwise: a wrong number of operands";
  if ((op.mode == kBinarySelect) != op.t_.has_value()) return "pointwise: select and only it has T";
  if (op.t_ && op.t_->type != kBoolean) return "select: T is no boolean";
  if ((op.mode == kGenIndex) != (op.axis >= 0)) return "pointwise: index and only it has an axis";
  if (op.mode == kGenIndex && op.y->type != kInt32) return "index: the type";
  if (op.b && op.mode != kBinarySelect && (op.x->type == kInt32) != (op.b->type == kInt32))
    return "pointwise: operands of two types";
  if (op.mode != kCmpGe && op.x->type == kInt32 && (op.y->type != kInt32 || op.precision != kInt32))
    return "pointwise: integers become something else";
  if (op.mode == kCmpGe && (op.y->type != kBoolean || op.precision != kBoolean))
    return "comparison: the type";
  return "";
}

// What is inside comes from an earlier operation, once; each number is one tensor.
int check_graph(const Thing& graph) {
  std::map<int64_t, Tensor> by_id;
  std::set<int64_t> made;
  for (const Operation& op : operations_of(graph)) {
    if (const std::string why = check(op); !why.empty()) return mistake(why);
    std::vector<const Tensor*> all = op.inputs();
    for (const Tensor* const t : all)
      if (t->inside != (made.count(t->id) > 0))
        return mistake("tensor " + std::to_string(t->id) + " is read before it is made");
    all.push_back(&*op.y);
    if (op.y->by_value || !made.insert(op.y->id).second)
      return mistake("tensor " + std::to_string(op.y->id) + " is made twice");
    for (const Tensor* const t : all) {
      const auto [known_one, fresh] = by_id.emplace(t->id, *t);
      if (!fresh && (known_one->second.dims != t->dims || known_one->second.strides != t->strides))
        return mistake("two tensors have the number " + std::to_string(t->id));
    }
  }
  return kSuccess;
}

int finalize(void* handle) {
  Thing* const thing = known(handle);
  if (!thing || thing->finalized) return mistake("finalized twice, or unknown");
  const FakeCudnn& fake = fake_cudnn();
  if (fake.finalize_answer != 0 && fake.finalize_type == thing->type) return fake.finalize_answer;
  for (const Rule& rule : kRules)
    if (rule.descriptor == thing->type && rule.needed && !thing->attributes.count(rule.attribute))
      return mistake(std::to_string(thing->type) + " lacks " + std::to_string(rule.attribute));
  if (thing->type == kTensor) {
    const Tensor t(*thing);
    if (t.inside && t.by_value) return mistake("a tensor inside that is a value");
    if (t.by_value && t.count() != 1) return mistake("a value that is a tensor");
  }
  if (thing->type == kOperationGraph) {
    if (const int status = check_graph(*thing); status != kSuccess) return status;
  }
  if (thing->type == kEngineHeuristic) {
    ++fake_cudnn().heuristics;
    thing->graph = thing_of(*thing, kHeuristicGraph);
    if (one_of<int>(*thing, kHeuristicMode) != kHeurModeA) return mistake("another heuristic");
  }
  if (thing->type == kExecutionPlan) {
    const Thing& config = *thing_of(*thing, kPlanConfig);
    thing->graph = config.graph;
    thing->engine = config.engine;
    if (fake.engine_refuses && fake.engine_refuses(thing->engine)) return kNotSupported + 1;
    ++fake_cudnn().plans;
  }
  thing->finalized = true;
  return kSuccess;
}

int get(void* handle, int attribute, int type, int64_t wanted, int64_t* count, void* values) {
  Thing* const thing = known(handle);
  if (!thing || !thing->finalized) return mistake("an answer of what is not finalized");
  if (thing->type == kEngineHeuristic && attribute == kHeuristicResults &&
      type == kTypeDescriptor) {
    *count = fake_cudnn().engines;
    for (int i = 0; i < fake_cudnn().engines && i < wanted; ++i) {
      Thing* const config = known(static_cast<void**>(values)[i]);
      if (!config || config->type != kEngineConfig || config->finalized)
        return mistake("no engine to write to");
      config->engine = i;
      config->graph = thing->graph;
      config->finalized = true;
    }
    return kSuccess;
  }
  if (thing->type == kExecutionPlan && attribute == kPlanWorkspace && type == kTypeInt64 &&
      wanted == 1) {
    *count = 1;
    std::memcpy(values, &fake_cudnn().workspace, sizeof(int64_t));
    return kSuccess;
  }
  return mistake("another answer is wanted");
}

// --- execution -----------------------------------------------------------------------------------

float rounded(float x, int type) {
  if (type != kBfloat16) return x;
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x == x) bits += 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

class Machine {
 public:
  explicit Machine(std::map<int64_t, void*> memory) : memory_(std::move(memory)) {}

  void run(const Operation& op) {
    std::vector<float> y(static_cast<size_t>(op.y->count()));
    const Four& d = op.y->dims;
    size_t i = 0;
    for (int64_t b = 0; b < d[0]; ++b)
      for (int64_t h = 0; h < d[1]; ++h)
        for (int64_t r = 0; r < d[2]; ++r)
          for (int64_t c = 0; c < d[3]; ++c)
            y[i++] = rounded(element(op, {b, h, r, c}), op.y->type);
    if (op.y->inside) {
      inside_[op.y->id] = std::move(y);
      return;
    }
    i = 0;
    for (int64_t b = 0; b < d[0]; ++b)
      for (int64_t h = 0; h < d[1]; ++h)
        for (int64_t r = 0; r < d[2]; ++r)
          for (int64_t c = 0; c < d[3]; ++c) store(*op.y, {b, h, r, c}, y[i++]);
  }

 private:
  static int64_t at(const Four& strides, const Four& i) {
    return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
  }
  float load(const Tensor& t, Four i) {
    for (size_t k = 0; k < 4; ++k)
      if (t.dims[k] == 1) i[k] = 0;  // spread
    const int64_t offset = at(t.strides, i);
    if (t.inside) return inside_.at(t.id)[static_cast<size_t>(offset)];
    const void* const data = memory_.at(t.id);
    if (t.type == kFloat) return static_cast<const float*>(data)[offset];
    if (t.type == kInt32) return static_cast<float>(static_cast<const int32_t*>(data)[offset]);
    const uint32_t bits = static_cast<const uint16_t*>(data)[offset];
    return std::bit_cast<float>(bits << 16);
  }
  void store(const Tensor& t, const Four& i, float x) {
    void* const data = memory_.at(t.id);
    if (t.type == kFloat) {
      static_cast<float*>(data)[at(t.strides, i)] = x;
    } else {
      static_cast<uint16_t*>(data)[at(t.strides, i)] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    }
  }
  float element(const Operation& op, const Four& i) {
    if (op.type == kMatmulOperation) {
      double sum = 0;
      const int64_t head = i[1] / (op.y->dims[1] / op.b->dims[1]);
      for (int64_t k = 0; k < op.b->dims[2]; ++k)
        sum += static_cast<double>(load(*op.x, {i[0], i[1], i[2], k})) *
               static_cast<double>(load(*op.b, {i[0], head, k, i[3]}));
      return static_cast<float>(sum);
    }
    if (op.type == kReductionOperation) {
      double all = op.mode == kReduceMax ? -std::numeric_limits<double>::infinity() : 0;
      for (int64_t k = 0; k < op.x->dims[3]; ++k) {
        const double x = static_cast<double>(load(*op.x, {i[0], i[1], i[2], k}));
        all = op.mode == kReduceMax ? std::max(all, x) : all + x;
      }
      return static_cast<float>(all);
    }
    if (op.mode == kGenIndex) return static_cast<float>(i[static_cast<size_t>(op.axis)]);
    const float x = load(*op.x, i);
    if (op.mode == kExp) return std::exp(x);
    if (op.mode == kLog) return std::log(x);
    const float b = load(*op.b, i);
    switch (op.mode) {
      case kAdd:
        return x + b;
      case kMul:
        return x * b;
      case kDiv:
        return x / b;
      case kSub:
        return x - b;
      case kCmpGe:
        return x >= b ? 1.0f : 0.0f;
      case kBinarySelect:
        return load(*op.t_, i) != 0 ? x : b;
      default:
        mistake("an operation that attention does not have");
        return 0;
    }
  }

  std::map<int64_t, void*> memory_;
  std::map<int64_t, std::vector<float>> inside_;
};

int execute(const void* handle, const void* plan_handle, const void* pack_handle) {
  FakeCudnn& fake = fake_cudnn();
  const Thing* const plan = known(plan_handle);
  const Thing* const pack = known(pack_handle);
  if (!known(handle) || !plan || !pack || !plan->finalized || !pack->finalized ||
      plan->type != kExecutionPlan || pack->type != kVariantPack)
    return mistake("executed without a plan or a pack");
  if (fake.execute_answer != 0) return fake.execute_answer;
  const std::vector<int64_t> ids = list_of<int64_t>(*pack, kPackIds);
  const std::vector<void*> addresses = list_of<void*>(*pack, kPackPointers);
  if (ids.size() != addresses.size()) return mistake("more numbers than addresses");
  std::map<int64_t, void*> memory;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!addresses[i] || !memory.emplace(ids[i], addresses[i]).second)
      return mistake("an address twice, or none");
  }
  if (fake.workspace > 0 && !one_of<void*>(*pack, kPackWorkspace)) return mistake("no workspace");
  std::set<int64_t> wanted;
  const std::vector<Operation> operations = operations_of(*plan->graph);
  for (const Operation& op : operations) {
    std::vector<const Tensor*> all = op.inputs();
    all.push_back(&*op.y);
    for (const Tensor* const t : all) {
      if (t->inside) continue;
      wanted.insert(t->id);
      if (!t->by_value && memory.count(t->id) &&
          reinterpret_cast<uintptr_t>(memory[t->id]) % 16 != 0)
        return mistake("an address that is not aligned");
    }
  }
  if (wanted.size() != memory.size() ||
      !std::all_of(wanted.begin(), wanted.end(), [&](int64_t id) { return memory.count(id) > 0; }))
    return mistake("the pack has other tensors than the graph");
  Machine machine(std::move(memory));
  for (const Operation& op : operations) machine.run(op);
  ++fake.executed;
  fake.engine = plan->engine;
  return kSuccess;
}

}  // namespace
}  // namespace prefix::ops::gpu

using namespace prefix::ops::gpu;

extern "C" {

size_t cudnnGetVersion() { return fake_cudnn().version; }
const char* cudnnGetErrorString(int) { return "CUDNN_STATUS_AS_TOLD"; }
void cudnnGetLastErrorString(char* text, size_t bytes) {
  std::strncpy(text, "because of the test", bytes);
}
int cudnnCreate(void** out) {
  return fake_cudnn().create_answer != 0 ? fake_cudnn().create_answer : make(-1, out);
}
int cudnnDestroy(void* handle) { return destroy(handle); }
int cudnnSetStream(void*, void*) {
  ++fake_cudnn().streams;
  return 0;
}
int cudnnBackendCreateDescriptor(int type, void** out) { return make(type, out); }
int cudnnBackendDestroyDescriptor(void* descriptor) { return destroy(descriptor); }
int cudnnBackendSetAttribute(void* d, int attribute, int type, int64_t count, const void* values) {
  return set(d, attribute, type, count, values);
}
int cudnnBackendGetAttribute(void* d, int attribute, int type, int64_t wanted, int64_t* count,
                             void* values) {
  return get(d, attribute, type, wanted, count, values);
}
int cudnnBackendFinalize(void* d) { return finalize(d); }
int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  return execute(handle, plan, pack);
}

}  // extern "C"
