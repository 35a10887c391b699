// A Runtime on the CPU: executes the launches of the GPU device layer block by block, in an order
// that is shuffled for every launch, with the bodies of the CUDA kernels (kernels/body).
//
// Device memory is host memory here, but each allocation is remembered: a launch or a copy that
// names memory outside of them fails, as it would on a GPU. So does a wait when pinned memory has
// changed since it was sent, because a GPU might not have read it yet. A download that is only
// begun is there after the wait.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {

// Calls that the Hopper kernels leave out: the emulator has to notice (hopper_test.cc).
struct Sabotage {
  int wait = -1;          // none on this barrier
  int early = -1;         // waits on this barrier ask for the other parity
  bool products = false;  // no wait_products
  bool fence_async = false;
  bool fence = false;  // of registers
  // Of clusters: the first, second ... of the barriers that the warps of a block, of a cluster
  // pass.
  int sync = -1, sync_cluster = -1;
};

struct EmulatorCounters {
  int64_t launches[static_cast<size_t>(Kernel::kCount)] = {};
  int64_t gemms = 0;
  int64_t new_gemms = 0;             // of shapes that nobody has prepared
  int64_t records = 0, replays = 0;  // what a graph runs counts as replays only
  // Downloads are those that wait.
  std::atomic<int64_t> uploads{0}, downloads{0}, downloaded_bytes{0}, waits{0};
  std::atomic<int64_t> allocations{0}, pinned_allocations{0};

  int64_t of(Kernel kernel) const { return launches[static_cast<size_t>(kernel)]; }
};

class EmulatedRuntime final : public Runtime {
 public:
  explicit EmulatedRuntime(int32_t processors = 4, uint64_t seed = 1);
  ~EmulatedRuntime() override;

  const Properties& properties() const override { return properties_; }
  const char* error() const override;
  int64_t free_bytes() override { return properties_.total_bytes - used_bytes_; }

  Code allocate(size_t bytes, void** out) override;
  void release(void* data) override;
  Code allocate_pinned(size_t bytes, void** out) override;
  void release_pinned(void* data) override;
  Code upload(void* device, const void* host, size_t bytes) override;
  Code download(void* host, const void* device, size_t bytes) override;
  Code begin_download(void* pinned, const void* device, size_t bytes) override;
  Code launch(const Command& launch) override;
  Code gemm(const GemmArgs& args) override;
  void bind_thread() override { launcher_ = std::this_thread::get_id(); }
  void prepare_gemm(const GemmArgs& args) override { known_products_.insert(shape_of(args)); }
  Code synchronize() override;
  Code record(std::span<const Command> commands, int32_t* graph) override;
  Code replay(int32_t graph) override;
  void forget(int32_t graph) override { graphs_.erase(graph); }

  const EmulatorCounters& counters() const { return counters_; }
  // Of the engine; none before its first step.
  std::thread::id launcher() const { return launcher_; }
  void sabotage(const Sabotage& sabotage) { sabotage_ = sabotage; }
  // Makes the call after `calls` more fail: what the device layer does about it can be tested.
  void fail_after(int64_t calls, Code code) {
    fail_in_ = calls;
    fail_code_ = code;
  }
  // From now on record() fails.
  void refuse_graphs() { records_ = false; }

 private:
  // What cuBLASLt needs to know to choose an algorithm.
  using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool>;
  static Shape shape_of(const GemmArgs& a) {
    return {a.rows, a.n, a.k, a.ld_w, a.ld_x, a.ld_y, a.bias, a.output == Output::kActivation};
  }
  Code run(const Command& launch);
  Code run(const GemmArgs& args);
  Code check(const void* data, size_t bytes, const char* what);
  Code failure(Code code, std::string text);
  Code finish_copies();
  bool fails_now();

  Properties properties_;
  template <class Byte>
  struct Copy {
    Byte* host;
    std::vector<unsigned char> bytes;
  };

  std::mutex mutex_;  // of memory_, pinned_, in_flight_ and downloads_
  std::map<const unsigned char*, size_t> memory_;
  std::map<const unsigned char*, size_t> pinned_;
  // Uploads from pinned memory: what lay there must still lie there when somebody waits. Downloads that
  // nobody has waited for yet.
  std::vector<Copy<const unsigned char>> in_flight_;
  std::vector<Copy<unsigned char>> downloads_;
  std::atomic<int64_t> used_bytes_{0};
  std::set<Shape> known_products_;
  std::atomic<std::thread::id> launcher_{};
  EmulatorCounters counters_;
  std::mt19937_64 random_;
  bool records_ = true;
  int32_t next_graph_ = 0;
  std::map<int32_t, std::vector<Command>> graphs_;
  Sabotage sabotage_;
  int64_t fail_in_ = -1;
  Code fail_code_ = Code::kOk;
};

}  // namespace prefix::ops::gpu
