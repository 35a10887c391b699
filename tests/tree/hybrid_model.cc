#include "tree/hybrid_model.h"

#include <algorithm>

namespace prefix::testing_support {

HybridModel::HybridModel(const HybridOptions& options) : options_(options) {}

void HybridModel::set_method(HybridMethod method, double alpha) {
  options_.method = method;
  options_.alpha = alpha;
}

int HybridModel::root(const std::string& name) {
  const auto [at, is_new] = roots_.try_emplace(name, -1);
  if (is_new) root_list_.push_back(at->second = make(-1, 0));
  return at->second;
}

int HybridModel::make(int parent, int32_t token) {
  int id = static_cast<int>(e_.size());
  if (free_.empty()) {
    e_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  e_[id] = {.parent = parent, .token = token};
  if (parent >= 0) {
    e_[id].depth = e_[parent].depth + 1;
    e_[parent].children.push_back(id);
  }
  return id;
}

int HybridModel::child(int entry, int32_t token) const {
  for (const int c : e_[entry].children)
    if (e_[c].token == token) return c;
  return -1;
}

int HybridModel::end_of_match(int root, std::span<const int32_t> tokens) const {
  int at = root;
  for (const int32_t t : tokens) {
    const int next = child(at, t);
    if (next < 0) break;
    at = next;
  }
  return at;
}

int HybridModel::hit(int entry, int64_t limit) const {
  for (; e_[entry].parent >= 0; entry = e_[entry].parent)
    if (e_[entry].state && e_[entry].depth <= limit) return entry;
  return -1;
}

int HybridModel::node_below(int entry) const {
  while (!e_[entry].is_node && e_[entry].parent >= 0) entry = e_[entry].children.front();
  return entry;
}

void HybridModel::mark(int entry, bool state) {
  e_[entry].is_node = true;
  e_[entry].state = state;
  e_[entry].last_use = clock_;
  e_[entry].base = age_;
  e_[entry].hits = 0;
}

void HybridModel::touch(int entry, int used) {
  if (options_.method == HybridMethod::kLeafLru) {
    const int last = node_below(entry);
    for (int at = last; e_[at].parent >= 0; at = e_[at].parent)
      if (e_[at].is_node) e_[at].last_use = clock_;
  } else if (used >= 0) {
    e_[used].last_use = clock_;
    e_[used].base = age_;
  }
}

int64_t HybridModel::look_up(const std::string& name, std::span<const int32_t> prompt) {
  ++clock_;
  const int at = end_of_match(root(name), prompt);
  const int used = hit(at, static_cast<int64_t>(prompt.size()) - 1);
  touch(at, used);
  if (used < 0) return 0;
  ++e_[used].hits;
  return e_[used].depth;
}

// --- victims ---

void HybridModel::walk(int entry, std::vector<int>& out) const {
  if (e_[entry].is_node) out.push_back(entry);
  for (const int c : e_[entry].children) walk(c, out);
}

std::vector<int> HybridModel::candidates() const {
  std::vector<int> all, out;
  for (const int r : root_list_) walk(r, all);
  for (const int id : all) {
    const size_t children = e_[id].children.size();
    const bool inner = children == 1 && e_[id].state && options_.method != HybridMethod::kLeafLru;
    if (!e_[id].pinned && (children == 0 || inner)) out.push_back(id);
  }
  return out;
}

int64_t HybridModel::run(int entry) const {
  int64_t tokens = 1;
  for (int at = e_[entry].parent; !e_[at].is_node && e_[at].parent >= 0; at = e_[at].parent)
    ++tokens;
  return tokens;
}

double HybridModel::gain(int entry) const {
  const HybridCost& cost = options_.cost;
  const int64_t end = e_[entry].depth;
  const int64_t freed = (e_[entry].children.empty() ? run(entry) * cost.kv_bytes : 0) +
                        (e_[entry].state ? cost.state_bytes : 0);
  return static_cast<double>(cost.flops_between(end - run(entry), end)) /
         static_cast<double>(std::max<int64_t>(1, freed));
}

int HybridModel::victim(int64_t now) const {
  const std::vector<int> all = candidates();
  const auto recency = [&](int id) { return 1.0 / static_cast<double>(now - e_[id].last_use); };
  const auto efficiency = [&](int id) {
    const int64_t end = e_[id].depth;
    const int64_t bytes = options_.cost.state_bytes + options_.cost.kv_bytes * end;
    return static_cast<double>(options_.cost.flops_between(end - run(id), end)) /
           static_cast<double>(bytes);
  };
  const auto share = [&](const auto& of, int id) {
    double low = of(id), high = of(id);
    for (const int other : all) {
      low = std::min(low, of(other));
      high = std::max(high, of(other));
    }
    return high > low ? (of(id) - low) / (high - low) : 1.0;
  };
  int best = -1;
  double least = 0;
  for (const int id : all) {
    double value = static_cast<double>(e_[id].last_use);
    if (options_.method == HybridMethod::kGds) value = e_[id].base + gain(id);
    if (options_.method == HybridMethod::kGdsf)
      value = e_[id].base + gain(id) * static_cast<double>(1 + e_[id].hits);
    if (options_.method == HybridMethod::kMarconi)
      value = options_.alpha * share(efficiency, id) + share(recency, id);
    if (best >= 0 && value >= least) continue;
    best = id;
    least = value;
  }
  return best;
}

// A node that is none any more: its run becomes part of the next one below.
void HybridModel::join(int entry) {
  e_[entry].is_node = e_[entry].state = false;
  Entry& below = e_[node_below(entry)];
  below.last_use = std::max(below.last_use, e_[entry].last_use);
  below.base = std::max(below.base, e_[entry].base);
}

void HybridModel::remove(int entry) {
  if (e_[entry].children.size() == 1) return join(entry);
  do {
    const int parent = e_[entry].parent;
    std::erase(e_[parent].children, entry);
    e_[entry] = {};
    free_.push_back(entry);
    entry = parent;
  } while (!e_[entry].is_node && e_[entry].parent >= 0);
  if (e_[entry].parent < 0 || e_[entry].children.size() != 1) return;
  if (!e_[entry].state && !e_[entry].pinned) return join(entry);
  e_[entry].base = age_;
}

// --- insertions ---

void HybridModel::insert(const std::string& name, std::span<const int32_t> tokens, int64_t prompt) {
  const int at = root(name);
  const auto head = static_cast<size_t>(prompt);
  const bool answered = head < tokens.size();
  if (options_.admission.prompt && answered) insert_one(at, tokens.first(head), true);
  insert_one(at, tokens.first(tokens.size() - answered), options_.admission.end);
}

void HybridModel::insert_one(int root, std::span<const int32_t> tokens, bool state_at_end) {
  ++clock_;
  const HybridCost& cost = options_.cost;
  const auto length = static_cast<int64_t>(tokens.size());
  int at = end_of_match(root, tokens);
  touch(at, hit(at, length));
  const int64_t rest = length - e_[at].depth;
  const bool fork = at != root && !e_[at].state;
  const bool state_at_fork = fork && (options_.admission.branch || (rest == 0 && state_at_end));
  const int64_t need =
      (state_at_fork + (rest > 0 && state_at_end)) * cost.state_bytes + rest * cost.kv_bytes;

  std::vector<int> path;
  const int last = node_below(at);
  int64_t stays = need + e_[last].depth * cost.kv_bytes;
  for (int id = last; e_[id].parent >= 0; id = e_[id].parent) {
    if (!e_[id].is_node) continue;
    path.push_back(id);
    stays += e_[id].state ? cost.state_bytes : 0;
  }
  if (options_.capacity > 0 && stays > options_.capacity) {
    ++refused_;
    return;
  }
  for (const int id : path) e_[id].pinned = true;
  while (options_.capacity > 0 && used() + need > options_.capacity) {
    const int id = victim(clock_ + 1);
    const auto times =
        static_cast<double>(options_.method == HybridMethod::kGdsf ? 1 + e_[id].hits : 1);
    age_ = std::max(age_, e_[id].base + gain(id) * times);
    ++evictions_;
    remove(id);
  }
  if (options_.method == HybridMethod::kLeafLru)
    for (int id = at; e_[id].parent >= 0; id = e_[id].parent)
      if (e_[id].is_node) e_[id].last_use = clock_;
  if (at != root && !e_[at].is_node && (state_at_fork || rest > 0)) {
    mark(at, state_at_fork);
  } else if (state_at_fork) {
    e_[at].state = true;
    e_[at].base = age_;
  }
  const int parent = at;
  for (const int32_t t : tokens.last(static_cast<size_t>(rest))) at = make(at, t);
  if (rest > 0) mark(at, state_at_end);
  for (const int id : path) e_[id].pinned = false;
  for (const int id : path)
    if (e_[id].is_node && !e_[id].state && e_[id].children.size() == 1) join(id);
  if (parent != root && e_[parent].is_node && !e_[parent].state && e_[parent].children.size() == 1)
    join(parent);

  if (options_.admission.max_states == 0) return;
  int64_t states = 0;
  std::vector<int> inner;
  for (int id = at; e_[id].parent >= 0; id = e_[id].parent) {
    states += e_[id].state;
    if (e_[id].state && e_[id].children.size() == 1) inner.push_back(id);
  }
  for (; states > options_.admission.max_states && !inner.empty(); --states, inner.pop_back())
    join(inner.back());
}

// --- questions ---

std::vector<HybridModel::Node> HybridModel::nodes() const {
  std::vector<int> all;
  for (const int r : root_list_) walk(r, all);
  std::vector<Node> out;
  for (const int id : all) out.push_back({e_[id].depth, e_[id].last_use, e_[id].state});
  return out;
}

int64_t HybridModel::used() const {
  int64_t bytes = 0;
  for (const Entry& entry : e_)
    if (entry.parent >= 0)
      bytes += options_.cost.kv_bytes + (entry.state ? options_.cost.state_bytes : 0);
  return bytes;
}

}  // namespace prefix::testing_support
