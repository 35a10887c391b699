// The formulas by which states of recurrent layers go. Two caches have them in common: the engine's
// tree (tree_states.cc) and the one that policies are tried on without a model (hybrid_policy.h).
//
//   gds, gdsf   base + gain x uses    gain: the cost of computing it again for the room it frees;
//                                     uses: 1 with gds                (Cao 1997, Cherkasova 1998)
//   marconi     alpha x E + R         E: that cost for the room of its whole prefix, R: 1 / time
//                                     since the last use; each as a share of its range over all
//                                     candidates of the moment               (Pan et al. 2024)
//
// The smallest goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace prefix {

inline double greedy_dual(double base, double gain, int64_t uses) {
  return base + gain * static_cast<double>(uses);
}

// The ranges of the candidates at one moment, later than any last use, and the score of each.
class MarconiScale {
 public:
  MarconiScale(double alpha, int64_t now) : alpha_(alpha), now_(now) {}

  void add(int64_t last_use, double efficiency) {
    add_use(last_use);
    efficiency_.add(efficiency);
  }
  void add_use(int64_t last_use) { recency_.add(recency(last_use)); }

  double score(int64_t last_use, double efficiency) const {
    return alpha_ * efficiency_.share(efficiency) + recency_.share(recency(last_use));
  }

 private:
  // A value as a share of its range; 1 when all are the same.
  struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void add(double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    double share(double value) const { return high > low ? (value - low) / (high - low) : 1.0; }
  };

  double recency(int64_t last_use) const { return 1.0 / static_cast<double>(now_ - last_use); }

  double alpha_;
  int64_t now_;
  Range recency_;
  Range efficiency_;
};

}  // namespace prefix
