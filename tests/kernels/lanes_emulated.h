// What the warps of both emulators have: a value a lane, and what lanes tell each other.
#pragma once

#include <algorithm>

#include "body/portable.h"

namespace prefix::ops::gpu {

class EmulatedLanes {
 public:
  template <class T>
  struct Local {
    T& operator[](int lane) { return values[lane]; }
    const T& operator[](int lane) const { return values[lane]; }
    T values[32];
  };

  EmulatedLanes(int index, bool backwards) : index_(index), backwards_(backwards) {}

  int index() const { return index_; }
  template <class F>
  void each(const F& f) {
    for (int i = 0; i < 32; ++i) f(backwards_ ? 31 - i : i);
  }
  void min(Local<int>& x) { std::fill_n(x.values, 32, *std::min_element(x.values, x.values + 32)); }
  void quad_max(Local<float>& x) {
    for (int i = 0; i < 32; i += 4) {
      const float a = larger(x[i + 1], x[i]), b = larger(x[i + 3], x[i + 2]);
      std::fill_n(x.values + i, 4, larger(b, a));
    }
  }
  void quad_sum(Local<float>& x) {
    for (int i = 0; i < 32; i += 4)
      std::fill_n(x.values + i, 4, (x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]));
  }

 private:
  int index_;
  bool backwards_;
};

}  // namespace prefix::ops::gpu
