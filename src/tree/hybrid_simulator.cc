#include "tree/hybrid_simulator.h"

#include <algorithm>
#include <utility>

namespace prefix {
namespace {

// Marconi: alpha is tuned after five times the lookups that came before the first eviction.
constexpr int64_t kWindowFactor = 5;

// auto: how often it chooses, and how fast it forgets.
constexpr int64_t kChooseEvery = 100;
constexpr double kMemory = 0.9;
constexpr HybridMethod kArms[] = {HybridMethod::kLru, HybridMethod::kGds, HybridMethod::kGdsf};
constexpr HybridMethod kFirst = HybridMethod::kGds;

HybridOptions with_method(HybridOptions options, HybridMethod method) {
  options.method = method;
  return options;
}

}  // namespace

HybridSimulator::HybridSimulator(const HybridOptions& options)
    : options_(options), chosen_(options.method) {
  if (options.method == HybridMethod::kBlock) {
    blocks_ = std::make_unique<HybridBlocks>(options);
    return;
  }
  if (options.method == HybridMethod::kMarconi && options.tuned) {
    tuner_ = std::make_unique<AlphaTuner>(options);
    options_.alpha = 0;
  }
  if (options.method == HybridMethod::kAuto) {
    chosen_ = kFirst;
    for (const HybridMethod arm : kArms)
      ghosts_.push_back(std::make_unique<Ghost>(with_method(options, arm)));
  }
  replay_ = std::make_unique<HybridReplay>(with_method(options_, chosen_));
}

int64_t HybridSimulator::request(std::string_view name, std::span<const int32_t> tokens,
                                 int64_t prompt) {
  ++lookups_;
  const int64_t reused = serve(name, tokens, prompt);
  flops_saved_ += static_cast<double>(options_.cost.flops(reused));
  return reused;
}

int64_t HybridSimulator::serve(std::string_view name, std::span<const int32_t> tokens,
                               int64_t prompt) {
  const std::span<const int32_t> head = tokens.first(static_cast<size_t>(prompt));
  if (blocks_) {
    const int64_t reused = blocks_->look_up(name, head);
    blocks_->insert(name, tokens, prompt);
    return reused;
  }
  const int64_t reused = replay_->look_up(name, head);
  if (tuner_) tune(name, tokens, prompt);
  replay_->insert(name, tokens, prompt);
  if (tuner_ && window_ == 0 && replay_->tree().evictions() > 0) window_ = kWindowFactor * lookups_;
  if (!ghosts_.empty()) follow(name, tokens, prompt);
  return reused;
}

// --- marconi ---

void HybridSimulator::tune(std::string_view name, std::span<const int32_t> tokens, int64_t prompt) {
  // Without room for the window it is what was recorded; a cache that was never full is not tuned.
  if (lookups_ <= window_ || window_ == 0) {
    if (!tuner_->record(name, tokens, prompt)) {
      if (window_ == 0) return tuner_.reset();
      window_ = lookups_;
    }
    if (lookups_ != window_) return;
  }
  const std::optional<double> alpha = tuner_->replay(options_.tune_step);
  if (!alpha) return;
  options_.alpha = *alpha;
  replay_->set_method(HybridMethod::kMarconi, options_.alpha);
  tuner_.reset();
}

// --- auto ---

void HybridSimulator::follow(std::string_view name, std::span<const int32_t> tokens,
                             int64_t prompt) {
  for (const auto& ghost : ghosts_) {
    ghost->saved += ghost->replay.look_up(name, tokens.first(static_cast<size_t>(prompt)));
    ghost->replay.insert(name, tokens, prompt);
  }
  if (lookups_ % kChooseEvery != 0) return;
  const Ghost* best = nullptr;
  for (const auto& ghost : ghosts_) {
    ghost->score = kMemory * ghost->score + static_cast<double>(std::exchange(ghost->saved, 0));
    // What is in use stays when nothing is better.
    if (!best || ghost->score > best->score ||
        (ghost->score == best->score && ghost->method == chosen_))
      best = ghost.get();
  }
  if (best->method == chosen_) return;
  chosen_ = best->method;
  replay_->set_method(chosen_, 0);
}

HybridStats HybridSimulator::stats() const {
  HybridStats stats{.method = chosen_,
                    .alpha = options_.alpha,
                    .lookups = lookups_,
                    .flops_saved = flops_saved_,
                    .window = tuner_ ? 0 : window_};
  if (blocks_) {
    stats.nodes = stats.states = blocks_->states();
    stats.tokens = blocks_->tokens();
    stats.bytes = blocks_->used();
    stats.peak_bytes = blocks_->peak_bytes();
    stats.evictions = blocks_->evictions();
  } else {
    const HybridTree& tree = replay_->tree();
    stats.nodes = tree.nodes();
    stats.states = tree.states();
    stats.tokens = tree.tokens();
    stats.bytes = tree.used();
    stats.peak_bytes = replay_->peak_bytes();
    stats.evictions = tree.evictions();
    stats.refused = replay_->refused();
  }
  return stats;
}

}  // namespace prefix
