// Costs of the tree alone.
#include <algorithm>
#include <numeric>

#include "cost.h"
#include "grown_tree.h"
#include "tree/tree.h"

namespace prefix::bench {
namespace {

double evict_leaves(int n) {
  GrownTree g(n + 1);
  for (int i = 0; i < n; ++i) g.cached(g.leaf(i));
  return timed([&] { g.tree.trim(0); });
}

double evict_pages_of_a_path(int n) {
  GrownTree g(n + 1);
  g.cached(g.path(1, n));
  return timed([&] {
    for (int left = n; left > 0; --left) g.tree.trim(left - 1);
  });
}

// Leaves behind the common path of a request whose pages become hollow, half of them in use.
double prune(int n) {
  PagePool pool(2 * n + 64);
  Tree tree(pool, {.window = 64});
  const NodeId root = tree.add_root();
  const Tokens held = pages_of_tokens(1, 1);
  const NodeId top = tree.attach(tree.match(root, held), held, {.slides = true});
  pool.add_band(1);
  tree.fill_sliding(top, 0, kPageTokens);
  tree.set_computed(top, kPageTokens);
  for (int i = 0; i < n; ++i) {
    const Tokens tokens = joined(held, pages_of_tokens(i + 2, 1));
    const NodeId id = tree.attach(tree.match(root, tokens), tokens, {.slides = true});
    pool.add_band(1);
    tree.fill_sliding(id, 0, 2 * kPageTokens);
    tree.set_computed(id, kPageTokens);
    pool.settle(tree.node(id).last_page);
    pool.remove_band(1);
    if (i >= n / 2) tree.unlock(id, true);
  }
  pool.empty(tree.node(top).first_page);
  return timed([&] { tree.prune_behind(top, 0, kPageTokens); });
}

double set_limits_beside(int n) {
  GrownTree g(n + 1);
  for (int i = 0; i < n; ++i) g.cached(g.leaf(i));
  g.tree.add_root(0, 1);
  return timed([&] { g.tree.set_limits(1, 10, 1000000); });
}

double set_limits_of_all(int n) {
  GrownTree g(n + 1);
  for (int i = 0; i < n; ++i) g.cached(g.leaf(i), g.tree.add_root(0, i + 1));
  return timed([&] {
    for (int i = 0; i < n; ++i) g.tree.set_limits(i + 1, 10, 1000000);
  });
}

double expire(int n) {
  GrownTree g(n + 1);
  for (int i = 0; i < n; ++i) {
    const Tokens tokens = g.leaf(i);
    const NodeId id = g.tree.attach(g.tree.match(g.root, tokens), tokens, {.expires_ms = i + 1});
    g.tree.set_computed(id, g.tree.node(id).length);
    g.tree.unlock(id, true);
  }
  return timed([&] {
    for (int i = 0; i < n; ++i) g.tree.expire(i + 1);
  });
}

// n states; `within`: all but one of a namespace that may not lose any.
GrownTree with_states(int n, Policy policy, bool protect) {
  GrownTree g(2 * n + 2, policy);
  const NodeId other = g.tree.add_root(0, 1);
  for (int i = 0; i < n; ++i) g.with_state(g.leaf(i), protect ? other : g.root);
  if (protect) {
    g.tree.set_limits(1, INT32_MAX, 0);
    g.with_state(g.leaf(n), g.root);
  }
  return g;
}

double evict_states(int n, Policy policy) {
  GrownTree g = with_states(n, policy, false);
  return timed([&] { g.tree.trim(0); });
}

double evict_state_beside_protected(int n) {
  GrownTree g = with_states(n, Policy::kLru, true);
  const int32_t used = g.pool.used();
  return timed([&] { g.tree.trim(used - 2); });
}

double marconi_victim(int n) {
  GrownTree g = with_states(n, Policy::kMarconi, false);
  const int32_t used = g.pool.used();
  return timed([&] { g.tree.trim(used - 2); });
}

double count_state_pages(int n) {
  GrownTree g(16);
  for (int i = 0; i < n; ++i) g.tree.add_root(0, i + 1);
  int64_t sum = 0;
  const double seconds = timed([&] {
    for (int i = 0; i < 100; ++i) sum += g.tree.state_page_count();
  });
  return sum == 0 ? seconds / 100 : 0;
}

double clean_pages(int n) {
  PagePool pool(n);
  std::vector<int32_t> pages;
  pool.prepare(n);
  for (int i = 0; i < n; ++i) pages.push_back(pool.allocate(-1));
  for (const int32_t page : pages) pool.release(page);
  for (int32_t& page : pages) page = pool.allocate(-1);  // of frames that were used before
  return timed([&] {
    for (const int32_t page : pages) pool.set_clean(page);
  });
}

}  // namespace

void add_tree_costs(std::vector<Cost>& costs) {
  costs.push_back({"evict leaves", "leaves", 50000, 1, evict_leaves});
  costs.push_back({"evict page by page", "pages of a path", 4000, 1, evict_pages_of_a_path});
  costs.push_back({"prune behind a window", "leaves", 2000, 1, prune});
  costs.push_back({"set limits", "leaves of others", 50000, 0, set_limits_beside});
  costs.push_back({"set limits of all", "namespaces of a leaf each", 500, 1, set_limits_of_all});
  costs.push_back({"expire", "leaves", 10000, 1, expire});
  costs.push_back({"evict states, lru", "states", 2000, 1,
                   [](int n) { return evict_states(n, Policy::kLru); }});
  costs.push_back({"evict states, gdsf", "states", 2000, 1,
                   [](int n) { return evict_states(n, Policy::kGdsf); }});
  costs.push_back({"evict a state, marconi", "states", 2000, 0, marconi_victim});
  costs.push_back({"evict a state, lru", "states of a protected namespace", 2000, 0,
                   evict_state_beside_protected});
  costs.push_back({"count pages of states", "namespaces", 2000, 0, count_state_pages});
  costs.push_back({"mark pages as written", "pages", 4000, 1, clean_pages});
}

}  // namespace prefix::bench
