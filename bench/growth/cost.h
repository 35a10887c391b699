// A cost that may grow with the size of what an engine holds: processor time of a part of run(n), which
// is measured for n, 2n, 4n and 8n.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

namespace prefix::bench {

struct Cost {
  std::string name;
  std::string size;  // what n counts
  int n;             // the smallest size
  int each;          // 1: the time of all n; 0: of one call, whatever n is
  // Makes what is to be measured, and returns seconds.
  std::function<double(int n)> run;
};

// Of this thread: others of the machine do not count.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename F>
double timed(const F& f) {
  const double start = thread_seconds();
  f();
  return thread_seconds() - start;
}

void add_tree_costs(std::vector<Cost>& costs);
void add_cache_costs(std::vector<Cost>& costs);
void add_engine_costs(std::vector<Cost>& costs);

}  // namespace prefix::bench
