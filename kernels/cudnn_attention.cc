#include "cudnn_attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

using namespace cudnn;

// Numbers of the tensors that are memory. Those inside the graph have numbers from kFirstInside on.
enum TensorId : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kSums,
  kScale,
  kMasked,
  kKeyCount,
  kRowCount,
  kFirstInside
};

using Four = std::array<int64_t, 4>;  // batch, head, row, column

// Of a masked score. Not -infinity, of which softmax could make NaN.
constexpr float kLowest = std::numeric_limits<float>::lowest();

constexpr int64_t kAlignment = 16;  // bytes
constexpr int kMostConfigs = 16;    // that are tried

// Row-major without gaps.
Four packed(const Four& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

std::string written(const SdpaShape& s) {
  return cat("attention of ", s.rows, " rows over ", s.keys,
             s.causal ? " keys, causal, " : " keys, ", s.heads, "/", s.kv_heads, " heads of ",
             s.head_dim);
}

}  // namespace

// Makes descriptors and remembers the first thing that went wrong; what comes afterwards is left
// out.
class CudnnAttention::Builder {
 public:
  Builder(const CudnnApi& api, void* handle, Plan& plan)
      : api_(api), handle_(handle), plan_(plan) {}

  int status() const { return status_; }
  const char* where() const { return where_; }

  // What the operations are.
  void build() {
    const SdpaShape& s = plan_.shape;
    const int64_t ld_kv = int64_t{s.kv_heads} * s.head_dim;
    const Four scores{1, s.heads, s.rows, s.keys};
    const Four result{1, s.heads, s.rows, s.head_dim};
    const Four row{1, s.heads, s.rows, 1};
    void* const q = tensor(kQ, kBfloat16, result, {s.rows * s.ld_q, s.head_dim, s.ld_q, 1});
    // K' has keys as columns.
    void* const k = tensor(kK, kBfloat16, {1, s.kv_heads, s.head_dim, s.keys},
                           {s.keys * ld_kv, s.head_dim, 1, ld_kv});
    void* const v = tensor(kV, kBfloat16, {1, s.kv_heads, s.keys, s.head_dim},
                           {s.keys * ld_kv, s.head_dim, ld_kv, 1});
    void* const o = tensor(kO, kBfloat16, result, {s.rows * s.ld_o, s.head_dim, s.ld_o, 1});
    void* const sums = tensor(kSums, kFloat, row, packed(row));

    void* x = inside(scores);
    matmul(q, k, x);
    x = pointwise(kMul, x, scalar(kScale), inside(scores));
    if (s.causal) {
      void* rows = index(x, 2, inside(scores, kInt32));
      if (s.keys > s.rows) {  // the last row sees the last key
        rows = pointwise(kAdd, rows, scalar(kKeyCount, kInt32), inside(scores, kInt32), kInt32);
        rows = pointwise(kSub, rows, scalar(kRowCount, kInt32), inside(scores, kInt32), kInt32);
      }
      void* const columns = index(x, 3, inside(scores, kInt32));
      void* const seen = pointwise(kCmpGe, rows, columns, inside(scores, kBoolean), kBoolean);
      x = pointwise(kBinarySelect, x, scalar(kMasked), inside(scores), kFloat, seen);
    }
    void* const top = reduce(kReduceMax, x, inside(row));
    void* const weights =
        pointwise(kExp, pointwise(kSub, x, top, inside(scores)), nullptr, inside(scores));
    void* const sum = reduce(kReduceAdd, weights, inside(row));
    pointwise(kAdd, top, pointwise(kLog, sum, nullptr, inside(row)), sums);
    matmul(pointwise(kDiv, weights, sum, inside(scores, kBfloat16)), v, o);
    choose_engine();
  }

 private:
  // Stays empty after a mistake.
  void* make(int type) {
    Descriptor& d = plan_.parts.emplace_back(api_);
    if (status_ == kSuccess) note(api_.descriptor_create(type, d.out()), "a descriptor");
    return d.get();
  }
  void note(int status, const char* where) {
    if (status_ != kSuccess || status == kSuccess) return;
    status_ = status;
    where_ = where;
  }
  template <class T>
  void set(void* d, int attribute, int type, const T* values, int64_t count) {
    if (status_ == kSuccess) note(api_.set(d, attribute, type, count, values), "an attribute");
  }
  template <class T>
  void set(void* d, int attribute, int type, const T& value) {
    set(d, attribute, type, &value, 1);
  }
  void finalize(void* d, const char* where) {
    if (status_ == kSuccess) note(api_.finalize(d), where);
  }

  void* tensor(int64_t id, int data, const Four& dims, const Four& strides, bool is_virtual = false,
               bool by_value = false) {
    void* const d = make(kTensor);
    set(d, kTensorType, kTypeDataType, data);
    set(d, kTensorDimensions, kTypeInt64, dims.data(), 4);
    set(d, kTensorStrides, kTypeInt64, strides.data(), 4);
    set(d, kTensorId, kTypeInt64, id);
    set(d, kTensorAlignment, kTypeInt64, kAlignment);
    set(d, kTensorIsVirtual, kTypeBoolean, is_virtual);
    set(d, kTensorIsByValue, kTypeBoolean, by_value);
    finalize(d, "a tensor");
    return d;
  }
  void* inside(const Four& dims, int data = kFloat) {
    return tensor(next_++, data, dims, packed(dims), true);
  }
  void* scalar(TensorId id, int data = kFloat) {
    return tensor(id, data, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
  }

  void matmul(void* a, void* b, void* c) {
    void* const d = make(kMatmul);
    set(d, kMatmulType, kTypeDataType, int{kFloat});
    finalize(d, "a product");
    operation(kMatmulOperation,
              {{kMatmulOpDesc, d}, {kMatmulOpA, a}, {kMatmulOpB, b}, {kMatmulOpC, c}});
  }
  void* reduce(int how, void* x, void* y) {
    void* const d = make(cudnn::kReduction);
    set(d, kReductionOperator, kTypeReductionOperator, how);
    set(d, kReductionType, kTypeDataType, int{kFloat});
    finalize(d, "a reduction");
    operation(kReductionOperation, {{kReductionOpDesc, d}, {kReductionOpX, x}, {kReductionOpY, y}});
    return y;
  }
  // y = mode(x, b), y = t ? x : b.
  void* pointwise(int mode, void* x, void* b, void* y, int precision = kFloat, void* t = nullptr) {
    void* const d = make(cudnn::kPointwise);
    set(d, kPointwiseMode, kTypePointwiseMode, mode);
    set(d, kPointwiseMathPrec, kTypeDataType, precision);
    finalize(d, "a pointwise operation");
    operation(kPointwiseOperation, {{kPointwiseOpDesc, d},
                                    {kPointwiseOpX, x},
                                    {kPointwiseOpB, b},
                                    {kPointwiseOpT, t},
                                    {kPointwiseOpY, y}});
    return y;
  }
  // y = the index of each element of x along an axis.
  void* index(void* x, int64_t axis, void* y) {
    void* const d = make(cudnn::kPointwise);
    set(d, kPointwiseMode, kTypePointwiseMode, int{kGenIndex});
    set(d, kPointwiseMathPrec, kTypeDataType, int{kInt32});
    set(d, kPointwiseAxis, kTypeInt64, axis);
    finalize(d, "an index");
    operation(kPointwiseOperation, {{kPointwiseOpDesc, d}, {kPointwiseOpX, x}, {kPointwiseOpY, y}});
    return y;
  }
  void operation(int type, std::initializer_list<std::pair<int, void*>> attributes) {
    void* const d = make(type);
    for (const auto& [attribute, value] : attributes)
      if (value) set(d, attribute, kTypeDescriptor, value);
    finalize(d, "an operation");
    operations_.push_back(d);
  }

  // The first engine, best first, whose plan is accepted and has room.
  void choose_engine() {
    void* const graph = make(kOperationGraph);
    set(graph, kGraphHandle, kTypeHandle, handle_);
    set(graph, kGraphOps, kTypeDescriptor, operations_.data(),
        static_cast<int64_t>(operations_.size()));
    finalize(graph, "the graph");
    void* const heuristic = make(kEngineHeuristic);
    set(heuristic, kHeuristicGraph, kTypeDescriptor, graph);
    set(heuristic, kHeuristicMode, kTypeHeurMode, kHeurModeA);
    finalize(heuristic, "the heuristic");
    std::vector<void*> configs;
    for (int i = 0; i < kMostConfigs; ++i) configs.push_back(make(kEngineConfig));
    int64_t count = 0;
    if (status_ == kSuccess)
      note(api_.get(heuristic, kHeuristicResults, kTypeDescriptor, kMostConfigs, &count,
                    configs.data()),
           "the heuristic");
    if (status_ != kSuccess) return;
    int refused = kNotSupported;
    const char* where = "the heuristic proposes nothing";
    for (int64_t i = 0; i < std::min<int64_t>(count, kMostConfigs); ++i) {
      void* const plan = make(kExecutionPlan);
      set(plan, kPlanHandle, kTypeHandle, handle_);
      set(plan, kPlanConfig, kTypeDescriptor, configs[static_cast<size_t>(i)]);
      finalize(plan, "a plan");
      int64_t bytes = 0, values = 0;
      if (status_ == kSuccess)
        note(api_.get(plan, kPlanWorkspace, kTypeInt64, 1, &values, &bytes), "a plan");
      if (status_ == kSuccess && bytes <= static_cast<int64_t>(kWorkspaceBytes)) {
        plan_.plan = plan;
        return;
      }
      refused = status_ == kSuccess ? kNotSupported : status_;
      where = status_ == kSuccess ? "a plan wants more memory than there is" : where_;
      status_ = kSuccess;
    }
    note(refused, where);
  }

  const CudnnApi& api_;
  void* const handle_;
  Plan& plan_;
  int64_t next_ = kFirstInside;
  std::vector<void*> operations_;
  int status_ = kSuccess;
  const char* where_ = "";
};

bool CudnnAttention::open(void* stream, void* workspace, std::function<void()> wait,
                          std::string& why) {
  close();
  if (!open_cudnn(api_, why)) return false;
  version_ = static_cast<int64_t>(api_.version());
  workspace_ = workspace;
  wait_ = std::move(wait);
  int status = api_.create(&handle_);
  if (status == kSuccess) status = api_.set_stream(handle_, stream);
  if (status == kSuccess) return true;
  answer_of(status, "cudnnCreate", why);
  close();
  return false;
}

void CudnnAttention::close() {
  plans_.clear();
  if (handle_) api_.destroy(handle_);
  handle_ = nullptr;
}

void CudnnAttention::abandon() {
  for (Plan& plan : plans_)
    for (Descriptor& part : plan.parts) part.abandon();
  plans_.clear();
  handle_ = nullptr;
}

CudnnAttention::Plan& CudnnAttention::find(const SdpaShape& shape) {
  const auto known = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const Plan& plan) { return plan.shape == shape; });
  if (known != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, known);
    return plans_.front();
  }
  if (plans_.size() >= kMostPlans) {
    wait_();  // it may be on its way
    plans_.pop_back();
  }
  Plan& plan = plans_.emplace_front();
  plan.shape = shape;
  Builder builder(api_, handle_, plan);
  builder.build();
  if (builder.status() != kSuccess)
    plan.for_now = answer_of(builder.status(), cat(written(shape), ": ", builder.where()),
                             plan.why) == Answer::kNoMemory;
  return plan;
}

bool CudnnAttention::prepare(const SdpaShape& shape, std::string& why) {
  const Plan& plan = find(shape);
  why = plan.why;
  const bool prepared = plan.plan != nullptr;
  if (!prepared && plan.for_now) plans_.pop_front();
  return prepared;
}

CudnnAttention::Answer CudnnAttention::attend(const SdpaArgs& args, std::string& why) {
  Plan& plan = find(args.shape);
  if (!plan.plan) {
    why = plan.why;
    return Answer::kRefused;
  }
  const SdpaShape& shape = args.shape;
  float scale = args.scale, masked = kLowest;
  auto keys = static_cast<int32_t>(shape.keys), rows = static_cast<int32_t>(shape.rows);
  // In the order of their numbers; those that the graph does not have are the last ones.
  constexpr int64_t ids[] = {kQ, kK, kV, kO, kSums, kScale, kMasked, kKeyCount, kRowCount};
  const void* const addresses[] = {args.q, args.k,  args.v, args.o, args.sums,
                                   &scale, &masked, &keys,  &rows};
  const int64_t count = !shape.causal ? kScale : keys == rows ? kMasked : kRowCount;
  Descriptor pack(api_);
  int status = api_.descriptor_create(kVariantPack, pack.out());
  const auto set = [&](int attribute, int type, int64_t values, const void* data) {
    if (status == kSuccess) status = api_.set(pack.get(), attribute, type, values, data);
  };
  set(kPackIds, kTypeInt64, count, ids);
  set(kPackPointers, kTypeVoidPtr, count, addresses);
  set(kPackWorkspace, kTypeVoidPtr, 1, &workspace_);
  if (status == kSuccess) status = api_.finalize(pack.get());
  if (status == kSuccess) status = api_.execute(handle_, plan.plan, pack.get());
  const Answer answer = answer_of(status, written(args.shape), why);
  if (answer == Answer::kRefused || answer == Answer::kFailed) {
    plan.plan = nullptr;
    plan.why = why;
  }
  return answer;
}

CudnnAttention::Answer CudnnAttention::answer_of(int status, const std::string& what,
                                                 std::string& why) const {
  if (status == kSuccess) return Answer::kDone;
  char text[1024] = "";
  api_.last_error(text, sizeof text);
  why = cat("cuDNN: ", what, ": ", api_.name_of(status), *text ? ": " : "", text);
  if (status == kNoHostMemory || status == kNoDeviceMemory) return Answer::kNoMemory;
  return status >= kNotSupported && status < kNotSupportedEnd ? Answer::kRefused : Answer::kFailed;
}

}  // namespace prefix::ops::gpu
