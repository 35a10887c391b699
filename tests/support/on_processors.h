// Processors of a thread of the test, as taskset or a container would set them.
#pragma once

#include <sched.h>

#include <vector>

namespace prefix::testing_support {

// Those that the calling thread may run on, ascending.
inline std::vector<int> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> list;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) list.push_back(i);
  return list;
}

// While it lives, the calling thread may run on the first `count` of its processors only.
class OnProcessors {
 public:
  explicit OnProcessors(size_t count) {
    sched_getaffinity(0, sizeof before_, &before_);
    const std::vector<int> all = processors();
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count && i < all.size(); ++i) CPU_SET(static_cast<size_t>(all[i]), &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  ~OnProcessors() { sched_setaffinity(0, sizeof before_, &before_); }
  OnProcessors(const OnProcessors&) = delete;
  OnProcessors& operator=(const OnProcessors&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace prefix::testing_support
