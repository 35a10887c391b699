#include "tree/hybrid_blocks.h"

#include <algorithm>

namespace prefix {
namespace {

// FNV-1a over whole tokens; the tokens themselves decide.
int32_t hash_of(std::span<const int32_t> tokens) {
  uint64_t h = 0xcbf29ce484222325;
  for (const int32_t t : tokens) h = (h ^ static_cast<uint32_t>(t)) * 0x100000001b3;
  return static_cast<int32_t>(static_cast<uint32_t>(h >> 32));
}

}  // namespace

HybridBlocks::HybridBlocks(const HybridOptions& options)
    : options_(options),
      block_bytes_(options.cost.state_bytes + options.cost.kv_bytes * kHybridBlock) {}

int32_t HybridBlocks::make(int32_t parent) {
  auto id = static_cast<int32_t>(blocks_.size());
  if (free_.empty()) {
    blocks_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  at(id) = {.parent = parent};
  return id;
}

int32_t HybridBlocks::root(std::string_view name) {
  if (const auto found = roots_.find(name); found != roots_.end()) return found->second;
  const int32_t id = make(-1);
  roots_.emplace(name, id);
  return id;
}

int32_t HybridBlocks::find(int32_t parent, std::span<const int32_t> tokens) const {
  return children_.find(parent, hash_of(tokens), [&](int32_t id) {
    return at(id).parent == parent && std::ranges::equal(at(id).tokens, tokens);
  });
}

std::vector<int32_t> HybridBlocks::walk(std::string_view name, std::span<const int32_t> tokens) {
  std::vector<int32_t> path;
  int32_t id = root(name);
  for (size_t i = 0; i + kHybridBlock <= tokens.size(); i += kHybridBlock) {
    id = find(id, tokens.subspan(i, kHybridBlock));
    if (id < 0) break;
    path.push_back(id);
    if (at(id).children == 0) {
      leaves_.erase({at(id).last_use, id});
      leaves_.insert({clock_, id});
    }
    at(id).last_use = clock_;
  }
  return path;
}

int64_t HybridBlocks::look_up(std::string_view name, std::span<const int32_t> prompt) {
  ++clock_;
  const size_t limit = prompt.size() - (options_.marconi_rules ? 0 : 1);
  return static_cast<int64_t>(walk(name, prompt.first(limit)).size()) * kHybridBlock;
}

bool HybridBlocks::evict_one() {
  const auto victim = std::ranges::find_if(leaves_, [&](auto& l) { return !at(l.second).held; });
  if (victim == leaves_.end()) return false;
  const int32_t id = victim->second;
  leaves_.erase(victim);
  const int32_t parent = at(id).parent;
  children_.erase(parent, hash_of(at(id).tokens), id);
  free_.push_back(id);
  --live_;
  ++evictions_;
  // A root is no block, and stays.
  if (--at(parent).children == 0 && at(parent).parent >= 0)
    leaves_.insert({at(parent).last_use, parent});
  return true;
}

void HybridBlocks::insert(std::string_view name, std::span<const int32_t> tokens, int64_t prompt) {
  ++clock_;
  // The last token of an answer is sampled and never computed.
  const bool all = options_.marconi_rules || prompt == std::ssize(tokens);
  const std::span<const int32_t> kept = tokens.first(tokens.size() - (all ? 0 : 1));
  const std::vector<int32_t> path = walk(name, kept);
  for (const int32_t id : path) at(id).held = true;
  auto missing =
      static_cast<int64_t>(kept.size()) / kHybridBlock - static_cast<int64_t>(path.size());
  if (options_.capacity > 0) {
    while (used() + missing * block_bytes_ > options_.capacity && evict_one()) {
    }
    missing = std::min(missing, std::max<int64_t>(0, options_.capacity - used()) / block_bytes_);
  }
  int32_t id = path.empty() ? root(name) : path.back();
  for (size_t at_token = path.size() * kHybridBlock; missing > 0; --missing) {
    const std::span<const int32_t> run = kept.subspan(at_token, kHybridBlock);
    at_token += kHybridBlock;
    const int32_t block = make(id);
    std::ranges::copy(run, at(block).tokens.begin());
    at(block).last_use = clock_;
    if (at(id).parent >= 0 && at(id).children == 0) leaves_.erase({at(id).last_use, id});
    ++at(id).children;
    children_.add(id, hash_of(run), block);
    leaves_.insert({clock_, block});
    ++live_;
    id = block;
  }
  for (const int32_t held : path) at(held).held = false;
  peak_ = std::max(peak_, used());
}

}  // namespace prefix
