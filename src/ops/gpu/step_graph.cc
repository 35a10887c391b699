#include "ops/gpu/step_graph.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace prefix::ops::gpu {
namespace {

bool same(const Command& a, const Command& b) {
  return std::memcmp(&a, &b, offsetof(Command, args) + a.arg_bytes) == 0;
}

bool same(std::span<const Command> a, std::span<const Command> b) {
  return std::ranges::equal(a, b, [](const Command& x, const Command& y) { return same(x, y); });
}

// Commands are zero where they have no arguments.
uint64_t hash_of(const std::vector<Command>& commands) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(commands.data()), commands.size() * sizeof(Command)});
}

constexpr size_t kMaxRemembered = 256;

// The last error of this thread, if it came from a failure on another one; else the runtime knows
// it. No text of its own size: that would have to be freed at the end of the thread, and a thread
// that the system has no memory to tell so ends the process.
thread_local StepGraphs::ErrorText thread_error = {};

}  // namespace

Code StepGraphs::said(Code code) {
  if (code != Code::kOk) thread_error[0] = 0;
  return code;
}

const char* StepGraphs::error() const {
  return thread_error[0] == 0 ? runtime_->error() : thread_error.data();
}

void StepGraphs::set_pending(Code code) {
  if (code == Code::kOk || pending_error_ != Code::kOk) return;
  pending_error_ = code;
  const std::string_view text = runtime_->error();
  pending_text_[text.copy(pending_text_.data(), pending_text_.size() - 1)] = 0;
}

Code StepGraphs::take_pending() {
  thread_error = pending_text_;
  return std::exchange(pending_error_, Code::kOk);
}

int64_t padded_rows(int64_t rows) {
  if (rows <= 2) return rows;
  if (rows <= 32) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  if (rows <= 48) return 48;
  return rows <= 256 ? (rows + 63) / 64 * 64 : rows;
}

int64_t padded_items(int64_t items) {
  if (items <= 4) return items;
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(items))) / 4;
  return (items + step - 1) / step * step;
}

StepGraphs::~StepGraphs() {
  for (const Graph& graph : graphs_) runtime_->forget(graph.id);
}

Code StepGraphs::launch(const Command& command) {
  const std::lock_guard lock(mutex_);
  ++launches_[static_cast<size_t>(command.kernel)];
  // They come before a step's rows, and their number says nothing about the step.
  if (command.kernel == Kernel::kClearPages && !following_ && seen_.empty()) return run(command);
  return add(command);
}

Code StepGraphs::gemm(const GemmArgs& args) {
  const std::lock_guard lock(mutex_);
  return add(command_of(args));
}

Code StepGraphs::add(const Command& command) {
  launcher_ = std::this_thread::get_id();
  if (pending_error_ != Code::kOk) return take_pending();
  if (!works_ && graphs_.empty()) return run(command);
  if (following_ || seen_.empty()) {
    const std::span<const Command> so_far =
        following_ ? std::span<const Command>(following_->commands).first(held_)
                   : std::span<const Command>();
    const bool goes_on = following_ && held_ < following_->commands.size() &&
                         same(following_->commands[held_], command);
    Graph* const next = goes_on ? following_ : find(so_far, &command);
    if (next) {
      following_ = next;
      ++held_;
      return Code::kOk;
    }
    if (const Code code = run_held(); code != Code::kOk) return code;
  }
  const Code code = run(command);
  if (code != Code::kOk) {
    seen_.clear();
  } else if (seen_.size() <= kMaxCommands) {
    seen_.push_back(command);
  }
  return code;
}

StepGraphs::Graph* StepGraphs::find(std::span<const Command> like, const Command* next) {
  const size_t count = like.size();
  for (Graph& graph : graphs_) {
    const std::span<const Command> all(graph.commands);
    if (next ? all.size() <= count || !same(all[count], *next) : all.size() != count) continue;
    if (same(all.first(count), like)) return &graph;
  }
  return nullptr;
}

Code StepGraphs::run(const Command& command) {
  return said(command.kernel == Command::kGemm ? runtime_->gemm(gemm_of(command))
                                               : runtime_->launch(command));
}

// What was held back goes on, one by one.
Code StepGraphs::run_held() {
  if (!following_) return Code::kOk;
  const Graph& graph = *following_;
  const size_t count = std::exchange(held_, 0);
  following_ = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (const Code code = run(graph.commands[i]); code != Code::kOk) {
      seen_.clear();
      return code;
    }
    seen_.push_back(graph.commands[i]);
  }
  return Code::kOk;
}

Code StepGraphs::end_stretch() {
  Code code = Code::kOk;
  if (following_) {
    Graph* const whole = held_ == following_->commands.size()
                             ? following_
                             : find(std::span(following_->commands).first(held_), nullptr);
    if (whole) {
      following_ = nullptr;
      held_ = 0;
      return replay_whole(*whole);
    }
    code = run_held();
  }
  if (code == Code::kOk) learn();
  seen_.clear();
  return code;
}

// A graph may want device memory when it is launched. Without it nothing of the stretch has run: it
// goes on launch by launch, and the graph goes.
Code StepGraphs::replay_whole(Graph& whole) {
  whole.used = ++clock_;
  const Code code = said(runtime_->replay(whole.id));
  if (code == Code::kOk) ++counts_.replayed;
  if (code != Code::kOutOfDeviceMemory) return code;
  const std::vector<Command> commands = std::move(whole.commands);
  runtime_->forget(whole.id);
  std::erase_if(graphs_, [&](const Graph& g) { return &g == &whole; });
  for (const Command& c : commands)
    if (const Code failed = run(c); failed != Code::kOk) return failed;
  return Code::kOk;
}

void StepGraphs::forget_oldest() {
  const auto oldest =
      std::min_element(graphs_.begin(), graphs_.end(),
                       [](const Graph& a, const Graph& b) { return a.used < b.used; });
  runtime_->forget(oldest->id);
  graphs_.erase(oldest);
}

// The stretch has run; the second time it becomes a graph.
void StepGraphs::learn() {
  if (!works_ || seen_.size() < kMinCommands || seen_.size() > kMaxCommands) return;
  const uint64_t hash = hash_of(seen_);
  const auto known = std::find(once_.begin(), once_.end(), hash);
  if (known == once_.end()) {
    once_.push_back(hash);
    if (once_.size() > kMaxRemembered) once_.pop_front();
    return;
  }
  once_.erase(known);
  Graph graph;
  // Without graphs everything works, too: a runtime that cannot record is not asked again. One that
  // has no memory for another graph may have it later.
  if (const Code code = runtime_->record(seen_, &graph.id); code != Code::kOk) {
    if (counts_.refused++ == 0) counts_.why = runtime_->error();
    works_ = code == Code::kOutOfDeviceMemory;
    for (size_t half = graphs_.size() / 2; works_ && half > 0; --half) forget_oldest();
    return;
  }
  ++counts_.recorded;
  graph.commands = std::move(seen_);
  graph.used = ++clock_;
  if (graphs_.size() >= kMaxGraphs) forget_oldest();
  graphs_.push_back(std::move(graph));
}

Code StepGraphs::cut() {
  const std::lock_guard lock(mutex_);
  const Code code = end_stretch();
  if (launcher_ == std::this_thread::get_id())
    return pending_error_ != Code::kOk ? take_pending() : code;
  set_pending(code);
  return Code::kOk;
}

void StepGraphs::abort() {
  const std::lock_guard lock(mutex_);
  following_ = nullptr;
  held_ = 0;
  seen_.clear();
  pending_error_ = Code::kOk;
}

StepGraphs::Counts StepGraphs::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

int64_t StepGraphs::launches(Kernel kernel) const {
  const std::lock_guard lock(mutex_);
  return launches_[static_cast<size_t>(kernel)];
}

void StepGraphs::release(void* data) {
  if (!data) return;
  {
    const std::lock_guard lock(mutex_);
    // A release returns no error; the next call does.
    set_pending(end_stretch());
  }
  runtime_->release(data);
}

}  // namespace prefix::ops::gpu
