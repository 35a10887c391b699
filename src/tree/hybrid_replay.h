// Requests against the cache of a hybrid model under one policy: a lookup of the prompt, then an
// insertion of what was computed.
//
//                        our rules                          Marconi's (marconi_rules)
//   lookup               at most all tokens but the last    all tokens
//   insertion            all tokens but the last of an      all tokens
//                        answer: it is never computed
//   path of a request    stays until it is inserted         may go for its own tokens
//   room that is made    what is needed                     a state too many, if it is all there
//   capacity             never exceeded; what cannot fit    exceeded where the path went
//                        is not kept
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tree/hybrid_options.h"
#include "tree/hybrid_tree.h"
#include "tree/overlap_depths.h"

namespace prefix {

class HybridReplay {
 public:
  explicit HybridReplay(const HybridOptions& options);

  // Reused tokens of the prompt.
  int64_t look_up(std::string_view name, std::span<const int32_t> prompt);
  // prompt: how many of the tokens are the prompt's.
  void insert(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);

  // Where it would take states of a sequence from `begin` to `end` whose prompt ends at `prompt`.
  std::vector<int64_t> place(int64_t begin, int64_t prompt, int64_t end) const;

  void set_method(HybridMethod method, double alpha);
  const HybridTree& tree() const { return tree_; }
  int64_t peak_bytes() const { return peak_; }
  int64_t refused() const { return refused_; }  // insertions that could not fit

 private:
  bool leaf_lru() const { return method_ == HybridMethod::kLeafLru; }
  HybridMatch find(int32_t root, std::span<const int32_t> tokens, int64_t limit) const;
  void refresh(const HybridMatch& found);
  void insert_marconi(int32_t root, std::span<const int32_t> tokens);
  void insert_exact(int32_t root, std::span<const int32_t> tokens, int64_t prompt,
                    bool state_at_end);
  double least_gain() const;
  void learn(const HybridMatch& found);
  int32_t add(const HybridMatch& found, std::span<const int32_t> tokens, bool state_at_fork,
              bool state_at_end);
  void make_room_marconi(int64_t over);
  void thin(int32_t id);

  HybridOptions options_;
  HybridMethod method_;
  HybridTree tree_;
  OverlapDepths depths_;
  int64_t clock_ = 0;
  int64_t peak_ = 0;
  int64_t refused_ = 0;
};

}  // namespace prefix
