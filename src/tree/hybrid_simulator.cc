#include "tree/hybrid_simulator.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace prefix {
namespace {

// Marconi: alpha is tuned after five times the look-ups that came before the first eviction, by what
// the last 500 of them save.
constexpr int64_t kWindowFactor = 5;
constexpr int64_t kJudged = 500;
constexpr int kAlphas = 21;  // 0, 0.1, ... 2
// The window is kept in memory until then. A cache so large that it is never full is never tuned.
constexpr int64_t kMaxRecordedTokens = int64_t{1} << 28;

// auto: how often it chooses, and how fast it forgets.
constexpr int64_t kChooseEvery = 100;
constexpr double kMemory = 0.9;
constexpr HybridMethod kArms[] = {HybridMethod::kLru, HybridMethod::kGds, HybridMethod::kGdsf};
constexpr HybridMethod kFirst = HybridMethod::kGds;

int64_t add_capped(int64_t a, int64_t b) {
  return b > std::numeric_limits<int64_t>::max() - a ? std::numeric_limits<int64_t>::max() : a + b;
}

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
    tuning_ = true;
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
  ++look_ups_;
  const int64_t reused = serve(name, tokens, prompt);
  flops_saved_ += static_cast<double>(options_.cost.flops(reused));
  return reused;
}

int64_t HybridSimulator::serve(std::string_view name, std::span<const int32_t> tokens,
                               int64_t prompt) {
  const std::span<const int32_t> head = tokens.first(static_cast<size_t>(prompt));
  if (blocks_) {
    const int64_t reused = blocks_->look_up(name, head);
    blocks_->insert(name, tokens);
    return reused;
  }
  const int64_t reused = replay_->look_up(name, head);
  if (tuning_) record(name, tokens, prompt);
  replay_->insert(name, tokens, prompt);
  if (tuning_ && window_ == 0 && replay_->tree().evictions() > 0)
    window_ = kWindowFactor * look_ups_;
  if (!ghosts_.empty()) follow(name, tokens, prompt);
  return reused;
}

// --- marconi ---

void HybridSimulator::record(std::string_view name, std::span<const int32_t> tokens,
                             int64_t prompt) {
  recorded_.push_back({std::string(name), {tokens.begin(), tokens.end()}, prompt});
  recorded_tokens_ += static_cast<int64_t>(tokens.size());
  if (look_ups_ == window_) {
    options_.alpha = best_alpha();
    replay_->set_method(HybridMethod::kMarconi, options_.alpha);
    tuning_ = false;
  } else if (recorded_tokens_ > kMaxRecordedTokens) {
    tuning_ = false;
    window_ = 0;
  }
  if (!tuning_) recorded_ = {};
}

double HybridSimulator::best_alpha() const {
  double best = 0;
  int64_t most = -1;
  const size_t judged_from = recorded_.size() - std::min<size_t>(recorded_.size(), kJudged);
  for (int i = 0; i < kAlphas; ++i) {
    HybridOptions options = options_;
    options.alpha = i / 10.0;
    HybridReplay replay(options);
    int64_t saved = 0;
    for (size_t r = 0; r < recorded_.size(); ++r) {
      const Request& request = recorded_[r];
      const std::span<const int32_t> all = request.tokens;
      const int64_t reused =
          replay.look_up(request.name, all.first(static_cast<size_t>(request.prompt)));
      if (r >= judged_from) saved = add_capped(saved, options.cost.flops(reused));
      replay.insert(request.name, all, request.prompt);
    }
    if (saved <= most) continue;
    most = saved;
    best = options.alpha;
  }
  return best;
}

// --- auto ---

void HybridSimulator::follow(std::string_view name, std::span<const int32_t> tokens,
                             int64_t prompt) {
  for (const auto& ghost : ghosts_) {
    ghost->saved += ghost->replay.look_up(name, tokens.first(static_cast<size_t>(prompt)));
    ghost->replay.insert(name, tokens, prompt);
  }
  if (look_ups_ % kChooseEvery != 0) return;
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
                    .look_ups = look_ups_,
                    .flops_saved = flops_saved_,
                    .window = tuning_ ? 0 : window_};
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
