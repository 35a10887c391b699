// The prefix tree alone, one thread: what matching, inserting, evicting and locking cost.
//
//   chain      64 nodes of 512 tokens, one below the other      match, lock and unlock
//   forest     1,000 prefixes of 64 tokens with 16 own tokens for each of a million leaves
//
// Of each: nanoseconds of an operation (median and 99th percentile), tokens per second; and the bytes of the tree for a node, and of the pool for a token's slot: 4 for the
// token, the rest for the table of pages.
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "tree/tree.h"

namespace {

using prefix::NodeId;
using Clock = std::chrono::steady_clock;
using Tokens = std::vector<int32_t>;

double ns_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::nano>(b - a).count();
}

struct Times {
  std::vector<double> ns;  // of groups of operations, divided by their number

  prefix::bench::Line line(const char* what) {
    std::sort(ns.begin(), ns.end());
    prefix::bench::Line line("tree");
    line.field("operation", what).field("ns", ns[ns.size() / 2]);
    line.field("p99_ns", ns[ns.size() * 99 / 100]);
    return line;
  }
};

template <typename F>
Times measure(int groups, int each, const F& f) {
  Times times;
  for (int g = 0; g < groups; ++g) {
    const auto start = Clock::now();
    for (int i = 0; i < each; ++i) f();
    times.ns.push_back(ns_between(start, Clock::now()) / each);
  }
  return times;
}

void finish(prefix::Tree& tree, NodeId node) {
  tree.set_computed(node, tree.node(node).length);
  tree.unlock(node, true);
}

NodeId insert(prefix::Tree& tree, NodeId root, const Tokens& tokens) {
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
  finish(tree, node);
  return node;
}

void chain() {
  constexpr int kNodes = 64, kEdge = 512;
  prefix::PagePool pool(1 << 20);
  prefix::Tree tree(pool);
  const NodeId root = tree.add_root();
  Tokens tokens;
  NodeId last = root;
  for (int n = 0; n < kNodes; ++n) {
    for (int i = 0; i < kEdge; ++i) tokens.push_back((n * 7919 + i * 31) % 32000);
    last = insert(tree, root, tokens);
    Tokens other = tokens;  // a sibling, so that the chain has joints
    other.back() = 32001;
    insert(tree, root, other);
  }
  int64_t sum = 0;
  Times match = measure(2000, 1, [&] { sum += tree.match(root, tokens).matched; });
  std::sort(match.ns.begin(), match.ns.end());
  const double median = match.ns[match.ns.size() / 2];
  prefix::bench::Line line = match.line("match chain");
  line.field("tokens_per_second", static_cast<double>(tokens.size()) / median * 1e9);
  line.field("ns_per_node", median / kNodes).field("matched", static_cast<double>(sum) / 2000);
  line.print();
  Times lock = measure(2000, 10, [&] {
    tree.lock(last);
    tree.unlock(last, true);
  });
  std::sort(lock.ns.begin(), lock.ns.end());
  line = lock.line("lock and unlock");
  line.field("ns_per_node", lock.ns[lock.ns.size() / 2] / kNodes / 2).print();
}

struct Forest {
  static constexpr int kPrefixes = 1000;
  explicit Forest(int leaves)
      : pool(leaves * 2 + 40000), root(tree.add_root()), random(1), next(leaves) {
    for (int i = 0; i < leaves; ++i) insert(tree, root, path(i));
  }
  // 64 tokens of one of the prefixes and 16 of its own.
  Tokens path(int leaf) const {
    Tokens tokens(80);
    const int shared = leaf % kPrefixes;
    for (int i = 0; i < 64; ++i) tokens[static_cast<size_t>(i)] = (shared * 131 + i * 17) % 32000;
    tokens[0] = shared;
    uint32_t state = static_cast<uint32_t>(leaf) * 2654435761u + 1;
    for (size_t i = 64; i < 80; ++i) {
      state = state * 1664525u + 1013904223u;
      tokens[i] = static_cast<int32_t>(state >> 17);
    }
    return tokens;
  }

  prefix::PagePool pool;
  prefix::Tree tree{pool};
  NodeId root;
  std::mt19937 random;
  int next;
};

void forest(int leaves) {
  const auto start = Clock::now();
  Forest f(leaves);
  const double built = ns_between(start, Clock::now()) / leaves;
  const auto nodes = static_cast<double>(f.tree.node_count());
  const double slots = static_cast<double>(f.pool.used()) * prefix::kPageTokens;
  prefix::bench::Line line("tree");
  line.field("operation", "metadata").field("leaves", leaves).field("nodes", f.tree.node_count());
  line.field("tokens", f.tree.token_count()).field("slots", f.pool.used() * prefix::kPageTokens);
  line.field("bytes_per_node", static_cast<double>(f.tree.metadata_bytes()) / nodes);
  line.field("bytes_per_slot", static_cast<double>(f.pool.metadata_bytes()) / slots);
  line.field("build_ns", built).print();

  constexpr int kQueries = 20000;
  std::vector<Tokens> queries;
  for (int i = 0; i < kQueries; ++i)
    queries.push_back(f.path(static_cast<int>(f.random() % static_cast<uint32_t>(leaves))));
  size_t at = 0;
  int64_t matched = 0;
  Times match =
      measure(kQueries, 1, [&] { matched += f.tree.match(f.root, queries[at++]).matched; });
  line = match.line("match random").field("leaves", leaves);
  line.field("matched", static_cast<double>(matched) / kQueries).print();

  std::vector<Tokens> fresh;
  for (int i = 0; i < kQueries; ++i) fresh.push_back(f.path(f.next++));
  at = 0;
  Times more = measure(kQueries, 1, [&] { insert(f.tree, f.root, fresh[at++]); });
  more.line("insert").field("leaves", leaves).print();

  Times evict = measure(kQueries, 1, [&] { f.tree.evict(f.tree.victim()); });
  evict.line("evict").field("leaves", leaves).print();
  at = 0;
  Times mixed = measure(kQueries, 1, [&] {
    f.tree.evict(f.tree.victim());
    insert(f.tree, f.root, queries[at]);
    matched += f.tree.match(f.root, fresh[at++]).matched;
  });
  mixed.line("evict, insert, match").field("leaves", leaves).print();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> leaves = {1000, 100000, 1000000};
  prefix::bench::Program program(
      "tree_bench",
      "the prefix tree alone, one thread, no model: nanoseconds of matching, inserting, evicting and\n"
      "locking, in a chain of 64 nodes and in a forest",
      "--leaves 20000");
  program.list("--leaves", "N", "of the forest, 80 tokens each", leaves, 1, 10000000);
  return program.run(argc, argv, [&] {
    chain();
    for (const int n : leaves) forest(n);
  });
}
