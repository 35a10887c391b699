// Steps that look like an earlier one are replayed: one call instead of some hundred launches.
//
//   GpuDevice ── launch, gemm ──> StepGraphs ──> Runtime
//
//   a stretch of launches that was never seen      each goes on at once, and is noted
//   the same stretch a second time                 the same, and it is recorded as a graph
//   from then on                                   launches are compared with it and held back;
//                                                  at the end of the stretch: one replay
//   a launch that differs after all                what was held back goes on, then this one
//
// A stretch ends with cut() and with every other call, so whatever reads memory finds it written. A
// graph is used only for launches that are byte for byte those that it has: what the arguments name
// may change, grow or move, and an aborted step leaves nothing behind. What was held back may fail
// when another thread ends the stretch: the next launch or cut of the thread that launched it
// returns that error. What makes the steps of decoding alike is the device layer: rows, arrays and
// items are padded (padded_rows, padded_items; Staging gives arrays rooms of fixed sizes).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {

// Activations have room for rows rounded up to 64 (Model::ensure_rows); more than that is not
// added.
int64_t padded_rows(int64_t rows);
// At most a quarter more.
int64_t padded_items(int64_t items);

class StepGraphs final : public Runtime {
 public:
  // Shorter stretches are not worth a graph.
  static constexpr size_t kMinCommands = 16;
  static constexpr size_t kMaxCommands = 4096;
  static constexpr size_t kMaxGraphs = 64;

  // Without `enabled` everything goes on at once.
  explicit StepGraphs(std::unique_ptr<Runtime> runtime, bool enabled = true)
      : runtime_(std::move(runtime)), works_(enabled) {}
  ~StepGraphs() override;

  // Ends a stretch: what follows is another one.
  Code cut();
  // The results of the step are not wanted any more: what was held back is forgotten.
  void abort();

  struct Counts {
    int64_t recorded = 0, replayed = 0, refused = 0;
    std::string why;  // of the first refusal
  };
  using ErrorText = std::array<char, 512>;  // what is longer is cut

  Counts counts() const;
  // How often this kernel was launched or held back.
  int64_t launches(Kernel kernel) const;

  Code launch(const Command& command) override;
  Code gemm(const GemmArgs& args) override;

  void bind_thread() override { runtime_->bind_thread(); }
  void prepare_gemm(const GemmArgs& args) override { runtime_->prepare_gemm(args); }

  const Properties& properties() const override { return runtime_->properties(); }
  const char* error() const override;
  int64_t free_bytes() override { return runtime_->free_bytes(); }
  Code allocate(size_t bytes, void** out) override { return said(runtime_->allocate(bytes, out)); }
  void release(void* data) override;
  Code allocate_pinned(size_t bytes, void** out) override {
    return said(runtime_->allocate_pinned(bytes, out));
  }
  void release_pinned(void* data) override { runtime_->release_pinned(data); }
  Code upload(void* device, const void* host, size_t bytes) override {
    return behind_cut([&] { return runtime_->upload(device, host, bytes); });
  }
  Code download(void* host, const void* device, size_t bytes) override {
    return behind_cut([&] { return runtime_->download(host, device, bytes); });
  }
  Code begin_download(void* pinned, const void* device, size_t bytes) override {
    return behind_cut([&] { return runtime_->begin_download(pinned, device, bytes); });
  }
  Code synchronize() override {
    return behind_cut([&] { return runtime_->synchronize(); });
  }

 private:
  struct Graph {
    int32_t id = 0;
    std::vector<Command> commands;
    uint64_t used = 0;  // when
  };

  // Of a call of the runtime: its error is the last one of this thread.
  static Code said(Code code);
  template <class Call>
  Code behind_cut(const Call& call) {
    const Code code = cut();
    return code != Code::kOk ? code : said(call());
  }
  Code add(const Command& command);
  Code run(const Command& command);
  // The graph that begins with the first `count` commands of `like` and goes on with `next`; with
  // no `next`, ends there.
  Graph* find(std::span<const Command> like, const Command* next);
  void set_pending(Code code);
  Code take_pending();
  Code run_held();
  Code end_stretch();
  Code replay_whole(Graph& whole);
  void learn();
  void forget_oldest();

  std::unique_ptr<Runtime> runtime_;
  mutable std::mutex mutex_;  // memory is copied and released by other threads, too
  std::deque<Graph> graphs_;
  uint64_t clock_ = 0;
  bool works_;  // graphs are wanted, and this runtime can record
  Counts counts_;
  std::array<int64_t, static_cast<size_t>(Kernel::kCount)> launches_ = {};
  std::thread::id launcher_;        // of the last launch
  Code pending_error_ = Code::kOk;  // that the launcher has still to get
  ErrorText pending_text_ = {};

  // The stretch so far: the first held_ commands of *following_, or all of seen_, which ran.
  Graph* following_ = nullptr;
  size_t held_ = 0;
  std::vector<Command> seen_;
  std::deque<uint64_t> once_;  // hashes of stretches that ran and have no graph
};

}  // namespace prefix::ops::gpu
