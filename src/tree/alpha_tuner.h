// The alpha of Marconi's score that would have saved most: the requests that came so far are
// replayed on 21 caches that begin empty, one for each alpha, and the last of them are counted.
//
//   recorded   [ 0 | 1 | 2 | ... ]  ──> alpha 0:   HybridReplay ── FLOPs saved ─┐
//                next_ ^                alpha 0.1: HybridReplay ── FLOPs saved ─┼─> the most;
//                                       ...                                     │   of equals the
//                                       alpha 2:   HybridReplay ── FLOPs saved ─┘   smallest alpha
//
// All go over the same request before the next one, so the work can be spread:
// an engine replays a few with each request that ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/hybrid_replay.h"

namespace prefix {

class AlphaTuner {
 public:
  explicit AlphaTuner(const HybridOptions& options) : options_(options) {}

  // tokens: those of the prompt, then those of the answer. False: there is no room for more.
  bool record(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);
  // Replays the next `requests` of what was recorded, 0: all. The alpha when it is through;
  // record() nothing after the first call.
  std::optional<double> replay(int64_t requests);

 private:
  struct Request {
    std::string name;
    std::vector<int32_t> tokens;
    int64_t prompt = 0;
  };
  struct Arm {
    explicit Arm(const HybridOptions& options) : alpha(options.alpha), replay(options) {}
    double alpha;
    HybridReplay replay;
    int64_t saved = 0;  // FLOPs
  };

  HybridOptions options_;
  int64_t tokens_ = 0;
  std::vector<Request> recorded_;
  std::vector<std::unique_ptr<Arm>> arms_;
  size_t next_ = 0;
};

}  // namespace prefix
