// A matrix product that keeps a device busy while others are queued (timing.h).
#pragma once

#include "benches.h"
#include "device_memory.h"
#include "ops/op.h"

namespace prefix::bench {

class Blocker {
 public:
  Blocker(ops::Device& device, const Effort& effort)
      : device_(device),
        rows_(effort.blocker_rows),
        w_(shape(effort)),
        weights_(device, w_.bytes()),
        x_(device, static_cast<size_t>(rows_ * device.act_ld(w_.k)) * 2),
        y_(device, static_cast<size_t>(rows_ * w_.n) * 4, false) {
    w_.data = weights_.data();
  }
  void start() const {
    device_.linear(w_, nullptr, {x_.data(), device_.act_ld(w_.k)}, rows_,
                   reinterpret_cast<float*>(y_.data()), w_.n, false);
  }

 private:
  static ops::PackedWeights shape(const Effort& effort) {
    ops::PackedWeights w;
    w.n = effort.blocker_n;
    w.k = w.k_padded = effort.blocker_k;
    return w;
  }

  ops::Device& device_;
  int64_t rows_;
  ops::PackedWeights w_;
  Memory weights_, x_, y_;
};

}  // namespace prefix::bench
