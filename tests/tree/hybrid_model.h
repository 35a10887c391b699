// The cache of a hybrid model written down as plainly as it goes, to compare HybridReplay with: a
// trie with an entry for every token, and every question answered by walking all of it.
//
//   t ── o ── k ── e ── n        entries with a mark are what the tree calls nodes: leaves, forks
//        │    *         *        and what has a state; the rest is the run of the next one below
//        └── p *
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tree/hybrid_options.h"

namespace prefix::testing_support {

class HybridModel {
 public:
  explicit HybridModel(const HybridOptions& options);

  int64_t look_up(const std::string& name, std::span<const int32_t> prompt);
  void insert(const std::string& name, std::span<const int32_t> tokens, int64_t prompt);
  void set_method(HybridMethod method, double alpha);

  struct Node {
    int64_t end, last_use;
    bool state;
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes() const;  // depth first
  int64_t used() const;
  int64_t refused() const { return refused_; }
  int64_t evictions() const { return evictions_; }

 private:
  struct Entry {
    int parent = -1;
    int32_t token = 0;
    std::vector<int> children;  // in the order in which they came
    int64_t depth = 0;
    bool is_node = false;
    bool state = false;
    bool pinned = false;
    int64_t last_use = 0;
    double base = 0;
    int64_t hits = 0;
  };

  int root(const std::string& name);
  int make(int parent, int32_t token);
  int child(int entry, int32_t token) const;
  int end_of_match(int root, std::span<const int32_t> tokens) const;
  int hit(int entry, int64_t limit) const;  // deepest state on the path; -1 if none
  int node_below(int entry) const;          // the entry, or the first node below it
  void mark(int entry, bool state);
  void touch(int entry, int hit);
  void join(int entry);
  void remove(int entry);
  std::vector<int> candidates() const;
  int64_t run(int entry) const;  // tokens
  double gain(int entry) const;
  int victim(int64_t now) const;
  void insert_one(int root, std::span<const int32_t> tokens, bool state_at_end);
  void walk(int entry, std::vector<int>& out) const;

  HybridOptions options_;
  std::vector<Entry> e_;
  std::vector<int> free_;
  std::vector<int> root_list_;
  std::map<std::string, int> roots_;
  int64_t clock_ = 0;
  double age_ = 0;
  int64_t refused_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace prefix::testing_support
