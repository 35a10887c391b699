#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error_text.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/signals.h"
#include "cache/kv_memory.h"
#include "cache/lower_tiers.h"
#include "cache/page_keys.h"
#include "engine/calibration.h"
#include "engine/memory_estimate.h"
#include "engine/pool.h"
#include "engine/request_check.h"
#include "engine/schedule/scheduler.h"
#include "engine/warnings.h"
#include "model/architecture.h"
#include "model/load/pack_writer.h"
#include "model/load/weights.h"
#include "ops/devices.h"

namespace prefix {
namespace {

// Longest sleep while all requests wait for a tier, which may also be cancelled or overdue.
constexpr std::chrono::milliseconds kTierPoll(10);

}  // namespace

Engine::Engine(const ModelSource& source, const Options& options, const LoadProgress& progress,
               Now now)
    : options_(options), now_(std::move(now)) {
  const auto start = now_();
  check_options(options);
  ModelFiles files = open_model(source);
  info_.declared = std::move(files.declared);
  ModelConfig config = files.config;
  apply_attention(options, config);
  if (config.bidirectional) refuse_tiers();
  ops::DeviceOptions device_options = device_options_of(options);
  threads_ = device_options.threads = engine_threads(options);
  device_ = ops::make_device(device_options);
  load_model(source, std::move(files), device_options, progress);
  const ops::KvLayout layout = model_->kv_layout();
  const auto page_bytes = static_cast<int64_t>(layout.page_bytes());
  const int64_t pages =
      std::min<int64_t>(take_memory(page_bytes) / page_bytes, PagePool::kMaxPages);
  pages_ = std::make_unique<PagePool>(static_cast<int32_t>(pages));
  try {
    kv_ = std::make_unique<KvMemory>(*device_, layout, static_cast<int32_t>(pages));
  } catch (const Error& e) {
    fail(e.code(), "there is no memory for ", pages * page_bytes,
         " bytes of keys and values (option cache_bytes): ", e.message());
  }
  // As they are in force, for info_json().
  info_.pool = options.pool() != nullptr;
  options_.exchange_pool(nullptr);
  options_.set("threads", cat(threads_->count()));
  options_.set("cpus", processors_text(threads_->cpus()));
  options_.set("rows", cat(row_budget(options)));
  options_.set("queue_limit", cat(options.get_int("queue_limit")));
  options_.set("max_positions", cat(model_->max_positions()));
  options_.set("attention", model_->config().bidirectional ? "bidirectional" : "causal");
  options_.set("cache_bytes", cat(pages * page_bytes));
  tree_ = std::make_unique<Tree>(*pages_, tree_options());
  keys_ = std::make_unique<PageKeys>(*tree_, *pages_,
                                     [this](NodeId root) { return root_key_of(root); });
  open_tiers(progress);
  scheduler_ = std::make_unique<Scheduler>(
      *model_, *kv_, *pages_, *tree_,
      SchedulerOptions{.row_budget = static_cast<int32_t>(row_budget(options)),
                       .sharing = options.get_bool("sharing"),
                       .cache = options.get_bool("cache"),
                       .threads = threads_->count(),
                       .ghosts = policy_ghosts(),
                       .path_states = static_cast<int32_t>(options.get_int("cache_path_states")),
                       .whole_texts = model_->config().bidirectional},
      tiers_.get(), now_);
  watch_tree(progress);
  for (std::string& warning : warnings_of(options, model_->config(), info_.declared,
                                          request_limits(), device_->host_memory()))
    warnings_.push_back(std::move(warning));
  fill_info(source.name());
  load_ns_ = ns_of(now_() - start);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
}

Engine::~Engine() { shutdown(0); }

//   pack_to is empty    calibrate ──0.5── load ──1
//   else                calibrate ──0.5── write ──0.9── load what was written ──1
//
// Weights are rounded by the attention that the files ask for,
// so they are the same whatever the option says.
void Engine::load_model(const ModelSource& source, ModelFiles files,
                        const ops::DeviceOptions& device_options, const LoadProgress& progress) {
  double begin = 0, end = 0.5;  // of the part that is under way, of the whole load
  const LoadProgress part = [&](double done) {
    return !progress || progress(begin + (end - begin) * done);
  };
  const auto next = [&](double to) { begin = std::exchange(end, to); };
  const auto calibrated = [&](double to) {
    Calibration calibration = calibrate(files, device_options, part);
    if (calibration.empty()) end = 0;  // it had nothing to do
    next(to);
    return calibration;
  };
  Calibration calibration;
  if (const std::string to = options_.get("pack_to"); to.empty()) {
    calibration = calibrated(1);
  } else {
    write_packed(source, files, *device_, to, [&] { return calibrated(0.9); }, part);
    next(1);
    files = open_model(to);  // of what was written nothing stayed in memory
  }
  apply_attention(options_, files.config);
  const int32_t positions = context_length(options_, files.config);
  model_ = std::make_unique<Model>(std::move(files), *device_, positions, part,
                                   LoadExtras{.calibration = &calibration});
}

// Where tokens see those behind them, no two texts have a key in common, so there are no pages that
// tiers could have.
void Engine::refuse_tiers() const {
  for (const char* tier : {"cache_disk", "cache_store"})
    if (!options_.get(tier).empty())
      fail(Code::kInvalidArgument, "option ", tier, " is ", quote(options_.get(tier)),
           "; attention of this model is bidirectional, so no keys are kept for other texts");
}

// The memory of a GPU is divided when the engine is made: what steps need first, then the pool. No
// step takes any afterwards. Returns the bytes for keys and values.
int64_t Engine::take_memory(int64_t page_bytes) {
  const int64_t state_bytes = model_->state_layout().stored_bytes(static_cast<size_t>(page_bytes));
  if (device_->host_memory())
    return kv_budget(options_, page_bytes, state_bytes, device_->free_bytes(), true);
  const int64_t rows = row_budget(options_);
  const int64_t most = kv_budget(options_, page_bytes, state_bytes, device_->free_bytes(), false);
  try {
    model_->reserve(rows, most / page_bytes);
  } catch (const Error& e) {
    fail(e.code(), "there is no memory for steps of ", rows, " tokens (option rows) beside ",
         model_->weight_bytes(), " bytes of weights: ", e.message());
  }
  times_ = model_->times();
  const int64_t free = device_->free_bytes();
  const int64_t bytes = kv_budget(options_, page_bytes, state_bytes, free, false);
  if (bytes > free)
    fail(Code::kOutOfDeviceMemory, "keys and values want ", bytes, " bytes (option cache_bytes), ",
         free, " are free on the device after ", model_->weight_bytes(), " of weights and ",
         times_.activation_bytes_peak, " for steps of ", rows, " tokens (option rows)");
  return bytes;
}

RequestLimits Engine::request_limits() const {
  const auto page_bytes = kv_->layout().page_bytes();
  return {model_->max_positions(), pages_->capacity(), model_->state_pages(),
          static_cast<int64_t>(page_bytes)};
}

void Engine::require_room(int64_t requests) const {
  const SchedulerCounters& c = scheduler_->counters();
  const int64_t limit = options_.get_int("queue_limit");
  if (c.waiting + c.running + requests > limit)
    fail(Code::kQueueFull, requests, " requests do not fit: ", c.waiting + c.running,
         " are unfinished and queue_limit is ", limit);
}

// Reads every token, so it is done without the lock. By request what is wrong with it.
std::map<size_t, Error> Engine::check_requests(const std::vector<RequestSpec>& requests) {
  const Hold hold(*this, static_cast<int64_t>(requests.size()));
  std::map<size_t, Error> refused;
  const RequestLimits limits = request_limits();
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      check_request(requests[i], model_->config(), limits);
    } catch (const Error& e) {
      refused.emplace(i, e);
    }
  }
  return refused;
}

// Sets what the scheduler has to know of it. Throws what is wrong with it.
void Engine::admit_to_namespace(RequestSpec& spec) {
  adapt(spec);
  namespaces_.require(spec.name_space);
  if (require_salt_ && !namespaces_.has_salt(spec.name_space))
    fail(Code::kInvalidArgument, "namespace ", spec.name_space,
         " has no salt, and option require_salt is set");
}

std::shared_ptr<Job> Engine::submit(std::vector<RequestSpec> requests,
                                    const std::vector<std::string>& namespaces) {
  std::map<size_t, Error> refused = check_requests(requests);
  std::unique_lock lock(mutex_);
  require_open();
  require_room(static_cast<int64_t>(requests.size()));
  for (size_t i = 0; i < namespaces.size(); ++i)
    if (!namespaces[i].empty())
      requests[i].name_space = namespaces_.open(namespace_parts(namespaces[i]));
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      admit_to_namespace(requests[i]);
    } catch (const Error& e) {
      refused.emplace(i, e);
    }
  }
  auto job = std::make_shared<Job>(std::move(requests), now_);
  for (const auto& [i, error] : refused) {
    RequestResult& result = job->edit_result(i);
    result.status = error.code();
    result.message = error.message();
    result.finish = Finish::kError;
    job->finish(i);
  }
  scheduler_->enqueue(job);
  wake_requested_ = true;
  wake_.notify_all();
  return job;
}

int32_t Engine::open_namespace(const NamespaceParts& parts) {
  std::lock_guard lock(mutex_);
  require_open();
  return namespaces_.open(parts);
}

int32_t Engine::find_namespace(const NamespaceParts& parts) {
  std::lock_guard lock(mutex_);
  require_open();
  return namespaces_.find(parts);
}

int32_t Engine::namespace_count() {
  std::lock_guard lock(mutex_);
  return namespaces_.count();
}

EngineState Engine::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

void Engine::check() {
  std::lock_guard lock(mutex_);
  tree_->check();
  scheduler_->check();
}

void Engine::check_ready() {
  std::lock_guard lock(mutex_);
  require_open();
}

void Engine::require_open() const {
  if (state_ == EngineState::kFailed)
    fail(Code::kEngineFailed, "the engine failed earlier; create a new one");
  if (state_ != EngineState::kReady)
    fail(Code::kMisuse, "the engine is shut down and takes no more calls");
}

void Engine::shutdown(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (state_ == EngineState::kClosed) return;
  if (state_ == EngineState::kReady) state_ = EngineState::kDraining;
  // A second shutdown may time out first; after it there is no scheduler.
  const auto idle = [this] { return stop_ || scheduler_->idle(); };
  if (timeout_ms > 0) idle_.wait_for(lock, waiting_time(timeout_ms), idle);
  stop_ = true;
  if (scheduler_) scheduler_->stop();
  wake_.notify_all();
  gate_.look_again();
  idle_.notify_all();
  lock.unlock();
  std::unique_lock close(close_mutex_);
  if (thread_.joinable()) {
    thread_.join();
    if (tiers_) tiers_->flush();  // their only user has ended
  }
  lock.lock();
  idle_.wait(lock, [this] { return holds_ == 0; });  // they end soon: stop_ is set
  if (state_ == EngineState::kClosed) return;
  scheduler_->abort_all(Code::kCancelled, "the engine was shut down");
  keep_reports();
  scheduler_.reset();  // who asks gets the reports from here on
  std::unique_ptr<LowerTiers> tiers = std::move(tiers_);
  lock.unlock();  // their threads are waited for, and the log's callback may call the engine
  tiers.reset();
  lock.lock();
  state_ = EngineState::kClosed;
  events_.reset();
  keys_.reset();
  tree_.reset();
  kv_.reset();
  pages_.reset();
  model_.reset();
  device_.reset();
  threads_.reset();
  lock.unlock();
  close.unlock();
  log_message(LogLevel::kInfo, "an engine was shut down");
}

Engine::Hold::Hold(Engine& engine, int64_t requests) : engine_(engine) {
  std::lock_guard lock(engine_.mutex_);
  engine_.require_open();
  if (requests > 0) engine_.require_room(requests);
  ++engine_.holds_;
}

Engine::Hold::~Hold() {
  std::lock_guard lock(engine_.mutex_);
  --engine_.holds_;
  engine_.idle_.notify_all();
}

void Engine::loop() {
  if (const int error = threads_->bind_caller(); error != 0)
    log_message(LogLevel::kWarning,
                cat("the scheduler of an engine is not bound to processors ",
                    processors_text(threads_->cpus()), ": ", error_text(error)));
  std::unique_lock lock(mutex_);
  for (;;) {
    if (scheduler_->idle()) idle_.notify_all();
    gate_.end_step(lock);
    wake_.wait(lock, [this] { return stop_ || !scheduler_->idle(); });
    if (stop_) return;
    try {
      scheduler_->plan();
      free_closed_namespaces();  // before the lock is let go: what was cancelled has ended
      if (scheduler_->blocked_on_tiers()) {
        gate_.rest();
        wake_.wait_for(lock, kTierPoll,
                       [this] { return stop_ || wake_requested_.exchange(false); });
        continue;
      }
      gate_.begin_step();
      lock.unlock();
      scheduler_->execute();
      lock.lock();
      times_ = model_->times();
      scheduler_->complete();
      free_closed_namespaces();
      if (scheduler_->failed())
        fail_engine(lock, Code::kEngineFailed, "the engine failed on an earlier request");
    } catch (const std::bad_alloc&) {  // in the middle of a plan: what it left is not known
      fail_engine(lock, Code::kOutOfMemory, "out of host memory while a step was planned");
    } catch (const std::exception& e) {  // an invariant of the engine itself
      fail_engine(lock, Code::kEngineFailed, e.what());
    }
  }
}

void Engine::run_exclusive(const std::function<void()>& f) {
  std::unique_lock lock(mutex_);
  const StepGate::Call call(gate_, lock, [this] { return stop_ || scheduler_->idle(); });
  require_open();
  f();
}

void Engine::fail_engine(std::unique_lock<std::mutex>& lock, Code code,
                         const char* message) noexcept {
  if (!lock.owns_lock()) lock.lock();
  state_ = EngineState::kFailed;
  scheduler_->abort_all(code, message);
  if (tiers_) tiers_->forget_rests();
  lock.unlock();  // the log's callback may call the engine
  log_message(LogLevel::kError, message);
  lock.lock();
}

TreeOptions Engine::tree_options() const {
  const ModelConfig& c = model_->config();
  // Multiplications for one token in a layer: of the matrices, and of attention for each key.
  const double q = static_cast<double>(c.heads) * c.head_dim;
  const double kv = static_cast<double>(c.kv_heads) * c.head_dim;
  TreeOptions tree;
  const bool hybrid = model_->state_layout().layers > 0;
  const std::string policy = options_.get("cache_policy");
  if (policy != "auto") {
    tree.policy = *policy_of(policy);
  } else if (hybrid) {
    tree.policy = PolicyGhosts::kFirst;
  }
  const double attention_layers = model_->kv_layout().layers;
  tree.token_cost = c.hidden * (2 * q + 2 * kv + 3.0 * static_cast<double>(c.feed_forward_width()));
  tree.position_cost = 2 * q * attention_layers / c.layers;
  // A page has the keys of all layers: those before a window can go when every layer has it.
  const std::vector<int32_t> windows = model_->windows();
  if (!hybrid && !c.bidirectional && windows.size() == 1) tree.window = windows.front();
  tree.whole = c.bidirectional;
  return tree;
}

// For a hybrid model whose cache chooses its policy, its alpha,
// or where states are kept, by itself.
std::shared_ptr<PolicyGhosts> Engine::policy_ghosts() const {
  const StateLayout state = model_->state_layout();
  HybridAdmission admission;
  admission.placed = options_.get("cache_states") == "placed" ? 1 : 0;
  admission.max_states = options_.get_int("cache_path_states");
  const std::string policy = options_.get("cache_policy");
  const bool cache = options_.get_bool("cache") && options_.get_bool("sharing");
  const bool learns = policy == "auto" || policy == "marconi" || admission.placed > 0;
  if (state.layers == 0 || !cache || !learns) return nullptr;
  const auto page_bytes = static_cast<int64_t>(kv_->layout().page_bytes());
  const TreeOptions costs = tree_options();
  HybridCost cost;
  cost.mlp_layers = model_->config().layers;
  cost.mlp.linear = static_cast<int64_t>(2 * costs.token_cost);
  cost.mlp.quadratic = static_cast<int64_t>(costs.position_cost);  // half of the keys, on average
  cost.state_bytes = state.stored_bytes(kv_->layout().page_bytes());
  cost.kv_bytes = page_bytes / kPageTokens;
  return std::make_shared<PolicyGhosts>(cost, pages_->capacity() * page_bytes, admission,
                                        policy_of(policy));
}

MemoryEstimate Engine::estimate(const ModelSource& source, const Options& options) {
  return estimate_of(open_model(source), options);
}

std::shared_ptr<Engine> Engine::create(const ModelSource& source, const Options& options,
                                       const LoadProgress& progress, Now now) {
  auto engine =
      droppable_anywhere(std::make_shared<Engine>(source, options, progress, std::move(now)));
  const EngineInfo& info = engine->info();
  log_message(LogLevel::kInfo,
              cat("loaded ", quote(source.name(), 400), ": ", info.architecture, ", ", info.layers,
                  " layers, ", info.dtype, " on ", info.isa, " with ", info.threads,
                  " threads, in ", engine->stats().load_ns / 1000000, " ms"));
  return engine;
}

}  // namespace prefix
