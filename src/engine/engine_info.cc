// What an engine tells of itself.
#include <new>

#include "base/json_text.h"
#include "cache/kv_memory.h"
#include "cache/lower_tiers.h"
#include "engine/engine.h"
#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

// Of a path, without slashes behind it.
std::string last_part(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const size_t slash = path.find_last_of('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

}  // namespace

EngineStats Engine::stats() {
  std::lock_guard lock(mutex_);
  if (!scheduler_) return last_.stats;
  // No step does while nothing runs. But a step that failed may have left the tree in any state,
  // and once it is stopped its tiers may be reading the tree without the lock.
  if (!stop_ && state_ != EngineState::kFailed) scheduler_->expire_cache();
  return stats_now();
}

// Before everything goes: what was counted stays, and of what is held now nothing does.
void Engine::keep_reports() {
  EngineStats& s = last_.stats = stats_now();
  s.pages_used = s.kv_bytes = s.weight_bytes = s.metadata_bytes = 0;
  s.tree_nodes = s.tree_tokens = s.states = s.state_bytes = 0;
  try {
    last_.histograms = scheduler_->histograms();
    last_.tiers = tiers_now();
  } catch (const std::bad_alloc&) {  // they are lost
  }
}

EngineStats Engine::stats_now() const {
  EngineStats s;
  s.load_ns = load_ns_;
  const SchedulerCounters& c = scheduler_->counters();
  s.requests_waiting = c.waiting;
  s.requests_running = c.running;
  s.requests_finished = c.finished;
  s.requests_failed = c.failed;
  s.tokens_given = c.given;
  s.tokens_computed = c.computed;
  s.tokens_cached = c.cached;
  s.tokens_shared = c.shared;
  s.tokens_generated = c.generated;
  s.draft_tokens = c.drafted;
  s.draft_tokens_accepted = c.drafts_accepted;
  s.steps = c.steps;
  s.rows = c.rows;
  s.plan_ns = c.plan_ns;
  s.run_ns = c.run_ns;
  const auto page_bytes = static_cast<int64_t>(kv_->layout().page_bytes());
  s.pages_total = pages_->capacity();
  s.pages_used = pages_->used();
  s.page_tokens = kPageTokens;
  s.kv_bytes = pages_->used() * page_bytes;
  s.kv_bytes_peak = pages_->peak() * page_bytes;
  s.kv_budget_bytes = pages_->capacity() * page_bytes;
  s.weight_bytes = model_->weight_bytes();
  s.tree_nodes = static_cast<int64_t>(tree_->node_count());
  s.tree_tokens = tree_->token_count();
  s.evictions = tree_->evictions();
  s.evicted_tokens = tree_->evicted_tokens();
  const MissCounts& misses = c.missed;
  s.miss_first_seen = misses.first_seen;
  s.miss_namespace = misses.name_space;
  s.miss_budget = misses.budget;
  s.miss_evicted = misses.evicted;
  s.miss_granularity = misses.granularity;
  s.miss_state = misses.state;
  s.states = static_cast<int64_t>(tree_->state_count());
  s.state_bytes = tree_->state_page_count() * page_bytes;
  s.state_evictions = tree_->state_evictions();
  s.metadata_bytes =
      static_cast<int64_t>(tree_->metadata_bytes() + pages_->metadata_bytes() +
                           scheduler_->misses().metadata_bytes() + namespaces_.metadata_bytes());
  if (tiers_) {
    s.fetched_tokens = tiers_->counters().fetched_tokens;
    s.fetch_skipped_tokens = tiers_->counters().skipped_tokens;
    s.fetch_timeouts = tiers_->counters().timeouts;
  }
  const ModelTimes& t = times_;
  s.activation_bytes_peak = t.activation_bytes_peak;
  s.live_state_bytes_peak = t.live_state_bytes_peak;
  s.gemm_ns = t.gemm_ns;
  s.gemm_flops = t.gemm_flops;
  s.attention_ns = t.attention_ns;
  s.other_ns = t.other_ns;
  return s;
}

RequestHistograms Engine::histograms() {
  std::lock_guard lock(mutex_);
  if (scheduler_) return scheduler_->histograms();
  return last_.histograms ? *last_.histograms : RequestHistograms(info_.max_positions);
}

std::string Engine::info_json() {
  JsonText json;
  json.open('{').key("model").open('{').field("architecture", info_.architecture);
  json.field("vocab_size", info_.vocab_size).field("hidden", info_.hidden);
  json.field("layers", info_.layers).field("heads", info_.heads);
  json.field("kv_heads", info_.kv_heads).field("head_dim", info_.head_dim);
  json.field("intermediate", info_.intermediate).field("max_positions", info_.max_positions);
  json.field("tied", info_.tied).field("logits", info_.logits).list("eos_ids", info_.eos_ids);
  json.field("attention", info_.bidirectional ? "bidirectional" : "causal");
  json.field("weight_bytes", info_.weight_bytes);
  json.field("matrices", info_.matrices).field("packed_matrices", info_.packed_matrices);
  json.field("kv_bytes_per_token", info_.kv_bytes_per_token);
  json.field("recurrent_layers", info_.recurrent_layers);
  json.field("state_bytes", info_.state_bytes).field("labels", info_.labels);
  json.field("dense_layers", info_.dense_layers).field("dense_width", info_.dense_width);
  json.field("dense_of_tokens", info_.dense_of_tokens);
  write_declared(json.key("declared"), info_.declared);
  json.close('}');
  json.key("options").open('{');
  for (const OptionInfo& o : option_table())
    if (o.scope == OptionScope::kEngine) json.field(o.key, options_.get(o.key));
  json.close('}').field("device", info_.device).field("isa", info_.isa);
  json.field("dtype", info_.dtype).field("compute", info_.compute).field("threads", info_.threads);
  json.field("cpus", info_.cpus).field("pool", info_.pool);
  json.list("warnings", warnings_);
  return json.close('}').text();
}

void Engine::fill_info(const std::string& source_name) {
  const ModelConfig& c = model_->config();
  info_.name = options_.get("name");
  if (info_.name.empty())
    info_.name = last_part(source_name);
  else
    info_.declared.names.push_back(info_.name);  // all there may be where files are fed
  info_.architecture = c.architecture;
  info_.labels = c.labels;
  info_.dense_width = c.dense_width;
  info_.dense_of_tokens = c.dense_of_tokens;
  info_.dense_layers = model_->dense().count();
  info_.isa = device_->isa();
  info_.device = device_->name();
  info_.dtype = device_->types().weights == ops::WeightFormat::kF32 ? "f32" : "bf16";
  info_.compute = device_->types().int8 != 0 ? "int8" : info_.dtype;
  info_.vocab_size = c.vocab_size;
  info_.hidden = c.hidden;
  info_.layers = c.layers;
  info_.max_positions = model_->max_positions();
  info_.threads = threads_->count();
  info_.cpus = processors_text(threads_->cpus());
  info_.eos_ids = c.eos_ids;
  info_.heads = c.heads;
  info_.kv_heads = c.kv_heads;
  info_.head_dim = c.head_dim;
  info_.intermediate = c.intermediate;
  info_.tied = c.tie_embeddings;
  info_.logits = c.missing_output.empty() && !c.bidirectional;
  info_.bidirectional = c.bidirectional;
  info_.weight_bytes = model_->weight_bytes();
  info_.matrices = model_->block_count().all;
  info_.packed_matrices = model_->block_count().in_blocks;
  const size_t page_bytes = model_->kv_layout().page_bytes();
  info_.kv_bytes_per_token = static_cast<int64_t>(page_bytes) / kPageTokens;
  const StateLayout state = model_->state_layout();
  info_.recurrent_layers = state.layers;
  info_.state_bytes = state.stored_bytes(page_bytes);
}

}  // namespace prefix
