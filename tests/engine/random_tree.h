// Everything that becomes of a tree, at random: prompts that share prefixes in mid-page too, steps,
// generations, ends, evictions.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine_support.h"
#include "lower_tiers_support.h"

namespace prefix::testing_support {

class RandomTree {
 public:
  RandomTree(SmallCache& cache, unsigned seed) : cache_(cache), random_(seed) {
    known_.push_back(random_tokens(random_, 100, 3));
  }
  ~RandomTree() {
    for (const Sequence& s : running_) cache_.tree.unlock(s.node, true);
  }
  std::mt19937& random() { return random_; }

  // One operation.
  void step() {
    const Tokens& from = known_[random_() % known_.size()];
    Tokens tokens = first_tokens(from, 1 + random_() % from.size());
    const NodeId root = random_() % 2 ? cache_.root : cache_.other_root;
    switch (random_() % 7) {
      case 0:
      case 1:
        for (const int32_t t : random_tokens(random_, random_() % 60, 3)) tokens.push_back(t);
        tokens.resize(std::min<size_t>(tokens.size(), 160));
        if (running_.size() < 4) attach(root, tokens);
        break;
      case 2:
      case 3:
        if (!running_.empty()) cache_.compute(any().node, 1 + static_cast<int32_t>(random_() % 60));
        break;
      case 4:
        if (!running_.empty()) generate(any());
        break;
      case 5:
        if (!running_.empty()) {
          cache_.tree.unlock(running_.back().node, random_() % 4 > 0);
          running_.pop_back();
        }
        break;
      default:
        if (random_() % 4 == 0) {
          cache_.tree.drop(root);
        } else if (random_() % 2) {
          cache_.tree.drop_after(cache_.tree.match(root, tokens));
        } else {
          cache_.tree.trim(static_cast<int32_t>(random_() % 40));
        }
    }
  }

 private:
  struct Sequence {
    NodeId node;
    int32_t length;
  };
  Sequence& any() { return running_[random_() % running_.size()]; }
  void attach(NodeId root, const Tokens& tokens) {
    try {
      running_.push_back({cache_.tree.attach(cache_.tree.match(root, tokens), tokens, {}),
                          static_cast<int32_t>(tokens.size())});
      known_.push_back(tokens);
    } catch (const Error&) {  // no room
    }
  }
  void generate(Sequence& s) {
    cache_.compute_all(s.node);
    for (size_t n = random_() % 40; n > 0 && cache_.tree.make_room(1); --n) {
      int32_t taken;
      s.node =
          cache_.tree.advance(s.node, s.length++, static_cast<int32_t>(random_() % 3), {}, &taken);
    }
  }

  SmallCache& cache_;
  std::mt19937 random_;
  std::vector<Tokens> known_;
  std::vector<Sequence> running_;
};

// The tokens of the path to a node, and its own.
inline Tokens path_to(const Tree& tree, NodeId id) {
  Tokens tokens;
  for (; tree.node(id).length > 0; id = tree.node(id).parent) {
    const Tokens edge = tree.tokens(tree.node(id));
    tokens.insert(tokens.begin(), edge.begin(), edge.end());
  }
  return tokens;
}

}  // namespace prefix::testing_support
