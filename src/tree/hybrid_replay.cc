#include "tree/hybrid_replay.h"

#include <algorithm>
#include <optional>

namespace prefix {
namespace {

HybridPolicy policy_of(HybridMethod method) {
  switch (method) {
    case HybridMethod::kMarconi:
      return HybridPolicy::kMarconi;
    case HybridMethod::kGds:
      return HybridPolicy::kGds;
    case HybridMethod::kGdsf:
      return HybridPolicy::kGdsf;
    default:
      return HybridPolicy::kLru;
  }
}

HybridTree::Options tree_options(const HybridOptions& options) {
  HybridTree::Options tree{.cost = options.cost,
                           .policy = policy_of(options.method),
                           .alpha = options.alpha,
                           .leaves_only = options.method == HybridMethod::kLeafLru};
  tree.cost.mlp_minus_attention = options.pitfalls.mlp_minus_attention;
  return tree;
}

// What a lookup of the artifact finds: below a child of which the tokens agree in part it goes on
// with the rest of the tokens, and takes what agrees there for a prefix.
HybridMatch false_match(const HybridTree& tree, int32_t root, std::span<const int32_t> tokens) {
  HybridMatch m{.node = root};
  while (m.length < static_cast<int64_t>(tokens.size())) {
    const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(m.length));
    const int32_t child = tree.child_of(m.node, rest.front());
    if (child < 0) break;
    const std::vector<int32_t>& run = tree.node(child).tokens;
    const auto same = std::mismatch(run.begin(), run.end(), rest.begin(), rest.end());
    m.length += same.first - run.begin();
    m.node = child;
    if (same.first != run.end() || !tree.node(child).state) continue;
    m.hit = child;
    m.reused = m.length;
  }
  return m;
}

}  // namespace

HybridReplay::HybridReplay(const HybridOptions& options)
    : options_(options), method_(options.method), tree_(tree_options(options)) {}

void HybridReplay::set_method(HybridMethod method, double alpha) {
  method_ = method;
  tree_.set_policy(policy_of(method), alpha, method == HybridMethod::kLeafLru);
}

// --- lookups ---

HybridMatch HybridReplay::find(int32_t root, std::span<const int32_t> tokens, int64_t limit) const {
  HybridMatch found = tree_.match(root, tokens, limit);
  if (options_.pitfalls.false_hits) {
    const HybridMatch wrong = false_match(tree_, root, tokens);
    found.hit = wrong.hit;
    found.reused = wrong.reused;
  }
  return found;
}

// What a lookup touches: the state that is used,
// and with leaf_lru all that the tokens lead through.
void HybridReplay::refresh(const HybridMatch& found) {
  if (leaf_lru()) {
    if (found.partial >= 0) tree_.set_last_use(found.partial, clock_);
    for (int32_t id = found.node; !tree_.node(id).tokens.empty(); id = tree_.node(id).parent)
      tree_.set_last_use(id, clock_);
  } else if (found.hit >= 0) {
    tree_.renew(found.hit);
    tree_.set_last_use(found.hit, clock_);
  }
}

int64_t HybridReplay::look_up(std::string_view name, std::span<const int32_t> prompt) {
  ++clock_;
  const auto length = static_cast<int64_t>(prompt.size());
  const HybridMatch found =
      find(tree_.root(name), prompt, options_.marconi_rules ? length : length - 1);
  refresh(found);
  if (found.hit >= 0) tree_.count_hit(found.hit);
  if (options_.admission.placed > 0) learn(found);
  return found.reused;
}

// Where the request diverges from what another one brought.
void HybridReplay::learn(const HybridMatch& found) {
  if (found.length == 0) return;
  const HybridNode& node = tree_.node(found.node);
  if (found.partial < 0 && node.children == 0) return depths_.add_whole();
  const int32_t other = found.partial >= 0 ? found.partial : node.last_child;
  depths_.add_fork(found.length - tree_.node(other).prompt);
}

// --- insertions ---

// Tokens that a placed state must be expected to save: some of those whose keys and values take as
// much room. It need not pay by itself at once, since it may serve many requests.
double HybridReplay::least_gain() const {
  constexpr double kShare = 0.3;
  const auto token = static_cast<double>(std::max<int64_t>(1, options_.cost.kv_bytes));
  return kShare * static_cast<double>(options_.cost.state_bytes) / token;
}

std::vector<int64_t> HybridReplay::place(int64_t begin, int64_t prompt, int64_t end) const {
  return depths_.place(begin, prompt, end, options_.admission.placed, least_gain());
}

void HybridReplay::insert(std::string_view name, std::span<const int32_t> tokens, int64_t prompt) {
  const int32_t root = tree_.root(name);
  const std::span<const int32_t> head = tokens.first(static_cast<size_t>(prompt));
  const bool answered = head.size() < tokens.size();
  if (options_.marconi_rules) {
    if (options_.admission.prompt) insert_marconi(root, head);
    insert_marconi(root, tokens);
  } else {
    const std::span<const int32_t> kept = tokens.first(tokens.size() - answered);
    const auto length = static_cast<int64_t>(kept.size());
    if (options_.admission.placed > 0) {
      const int64_t begin = tree_.match(root, kept, length).length;
      for (const int64_t end : place(begin, prompt, length))
        insert_exact(root, kept.first(static_cast<size_t>(end)), prompt, true);
    }
    if (options_.admission.prompt && answered) insert_exact(root, head, prompt, true);
    insert_exact(root, kept, prompt, options_.admission.end);
  }
  peak_ = std::max(peak_, tree_.used());
}

// Adds what is not there. Returns the node of the last token.
int32_t HybridReplay::add(const HybridMatch& found, std::span<const int32_t> tokens,
                          bool state_at_fork, bool state_at_end) {
  const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(found.length));
  int32_t node = found.node;
  if (leaf_lru())
    for (int32_t id = node; !tree_.node(id).tokens.empty(); id = tree_.node(id).parent)
      tree_.set_last_use(id, clock_);
  if (found.partial >= 0 && (state_at_fork || !rest.empty()))
    node = tree_.split(found.partial, found.length - tree_.node(node).end, state_at_fork, clock_);
  else if (found.partial < 0 && state_at_fork)
    tree_.add_state(node);
  return rest.empty() ? node : tree_.add_leaf(node, rest, state_at_end, clock_);
}

void HybridReplay::insert_marconi(int32_t root, std::span<const int32_t> tokens) {
  clock_ += 2;  // for the insertion and for its lookup
  const auto length = static_cast<int64_t>(tokens.size());
  HybridMatch found = find(root, tokens, length);
  if (options_.pitfalls.insert_refreshes) refresh(found);
  const int64_t states = found.length > found.reused ? 2 : 1;
  const int64_t need = states * options_.cost.state_bytes + tree_.kv_bytes(length - found.length);
  const int64_t over = tree_.used() + need - options_.capacity;
  if (options_.capacity > 0 && over > 0) {
    make_room_marconi(over);
    found = tree_.match(root, tokens, length);  // part of it may be gone
  }
  add(found, tokens, found.partial >= 0, true);
}

void HybridReplay::make_room_marconi(int64_t over) {
  const MarconiPitfalls& pitfalls = options_.pitfalls;
  ++clock_;
  for (int64_t freed = 0; freed < over;) {
    std::optional<HybridQueue::Range> scale;
    if (!pitfalls.insert_refreshes) scale = tree_.last_uses();
    const int32_t id = tree_.victim(clock_, scale);
    if (id < 0) break;
    const bool leaf = tree_.node(id).children == 0;
    const int64_t last = tree_.freed_by(tree_.last_leaf());
    const int64_t right = tree_.evict(id);
    freed += leaf && pitfalls.wrong_leaf_bytes ? last : right;
  }
}

void HybridReplay::insert_exact(int32_t root, std::span<const int32_t> tokens, int64_t prompt,
                                bool state_at_end) {
  ++clock_;
  const auto length = static_cast<int64_t>(tokens.size());
  const HybridMatch found = tree_.match(root, tokens, length);
  refresh(found);
  const bool whole = found.length == length;
  // A fork whose state is not there gets it now: these tokens are seen for the second time.
  const bool is_fork = found.partial >= 0 || !(tree_.node(found.node).state || found.length == 0);
  const bool state_at_fork = is_fork && (options_.admission.branch || (whole && state_at_end));
  const int64_t states = state_at_fork + (state_at_end && !whole);
  const int64_t need = states * options_.cost.state_bytes + tree_.kv_bytes(length - found.length);

  const int32_t last = found.partial >= 0 ? found.partial : found.node;
  int64_t stays = tree_.kv_bytes(tree_.node(last).end);
  for (int32_t id = last; !tree_.node(id).tokens.empty(); id = tree_.node(id).parent)
    stays += tree_.node(id).state ? options_.cost.state_bytes : 0;
  if (options_.capacity > 0 && stays + need > options_.capacity) {
    ++refused_;
    return;
  }
  tree_.pin(last);
  while (options_.capacity > 0 && tree_.used() + need > options_.capacity)
    tree_.evict(tree_.victim(clock_ + 1));
  const int32_t end = add(found, tokens, state_at_fork, state_at_end);
  tree_.unpin(last);
  if (!whole) tree_.set_prompt(end, prompt);
  if (options_.admission.max_states > 0) thin(end);
}

// Of the states on the path those nearest to the root go first. Forks keep theirs, and so does the
// end.
void HybridReplay::thin(int32_t id) {
  int64_t states = 0;
  std::vector<int32_t> inner;  // deepest first
  for (int32_t at = id; !tree_.node(at).tokens.empty(); at = tree_.node(at).parent) {
    states += tree_.node(at).state;
    if (tree_.node(at).state && tree_.node(at).children == 1) inner.push_back(at);
  }
  for (; states > options_.admission.max_states && !inner.empty(); --states, inner.pop_back())
    tree_.drop_state(inner.back());
}

}  // namespace prefix
