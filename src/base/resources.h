// What this process may use of the machine: processors and memory, as the scheduler and the control
// groups (cgroup v2) allow them. In a container both are less than what the machine has.
//
//   /proc/self/cgroup  0::/a/b      /sys/fs/cgroup/cpu.max, a/cpu.max, a/b/cpu.max     the least
//   affinity of the process         "max 100000" or "QUOTA PERIOD"                     of all
//   /proc/meminfo                   memory.max, memory.current, memory.stat            decides
#pragma once

#include <cstdint>
#include <string>

namespace prefix {

struct Resources {
  int processors = 1;           // at least 1; a part of one counts as one
  int64_t total_bytes = 0;      // of the machine, or of the narrowest group
  int64_t available_bytes = 0;  // without swapping, as the kernel estimates it
};

// `root`: where /proc and /sys are looked for, for tests. What cannot be read is no limit. Any
// thread.
Resources resources(const std::string& root = "");

}  // namespace prefix
