// Dense segments of attention (SdpaArgs) by cuDNN's fused attention. Its backend interface has no
// call for it: one describes the operations, and a heuristic knows an engine that does them all.
//
//   Q ─┐                    ┌ row index ┐                        ┌ max ┬──────────── + ── sums
//   K'─┴ matmul ─ x scale ──┼ col index ┴ >= ─┐                  │     │           │
//                           └─────────────────┴ select ── s ─────┴ - ──┴ exp ┬ sum ─┴ log
//                               lowest ───────┘  (causal)                    └───┴ / ─┐
//                                                                  V ─────────── matmul ── O
//
//   SdpaShape ──> Plan: descriptors, engine              made once, kept; refused shapes as well
//   SdpaArgs  ──> variant pack: tensor numbers, addresses ──> execute
//
// With earlier keys a causal graph adds their number to the row index. One operation for all of it
// exists, too, but has no causal mask before cuDNN 9.21.
//
// Knows no CUDA: the tests drive it with a library that does what the descriptors say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "cudnn_api.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// One thread at a time.
class CudnnAttention {
 public:
  // A plan that wants more is refused. Products have this memory, too: one stream, one after the
  // other.
  static constexpr size_t kWorkspaceBytes = kProductWorkspaceBytes;
  static constexpr size_t kMostPlans = 128;

  CudnnAttention() = default;
  ~CudnnAttention() { close(); }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // False when the library is not there or does not work; `why` says so. `workspace`: device memory
  // that lives until close(). `wait` returns when the stream has done what it was given.
  bool open(void* stream, void* workspace, std::function<void()> wait, std::string& why);
  void close();
  // As close(), when the process ends and the library below is gone: touches nothing of it.
  void abandon();
  int64_t version() const { return version_; }

  // Whether the shape is done; `why` says why it is not.
  bool prepare(const SdpaShape& shape, std::string& why);

  enum class Answer { kDone, kRefused, kNoMemory, kFailed };
  // A shape that was refused or failed now is not done from now on.
  Answer attend(const SdpaArgs& args, std::string& why);

 private:
  class Descriptor {
   public:
    explicit Descriptor(const CudnnApi& api) : api_(&api) {}
    ~Descriptor() {
      if (object_) api_->descriptor_destroy(object_);
    }
    Descriptor(Descriptor&& other) noexcept
        : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    void** out() { return &object_; }
    void* get() const { return object_; }
    void abandon() { object_ = nullptr; }

   private:
    const CudnnApi* api_;
    void* object_ = nullptr;
  };
  struct Plan {
    SdpaShape shape;
    std::vector<Descriptor> parts;  // all that the plan is made of
    void* plan = nullptr;           // null: refused
    bool for_now = false;           // because memory was short
    std::string why;
  };
  class Builder;

  // The plan of a shape, in front of all others; made when there is none.
  Plan& find(const SdpaShape& shape);
  Answer answer_of(int status, const std::string& what, std::string& why) const;

  CudnnApi api_{};
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  std::function<void()> wait_;
  int64_t version_ = 0;
  std::list<Plan> plans_;  // used last in front
};

}  // namespace prefix::ops::gpu
