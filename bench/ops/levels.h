// The levels of the CPU that a benchmark runs at, and the threads.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "ops/op_cpu.h"

namespace prefix::bench {

struct Levels {
  std::string isa;  // empty: all that run here
  std::vector<int> threads = {1, 2};

  void add_options(Program& program) {
    std::string names = "auto";
    for (const ops::IsaLevel& level : ops::cpu_isa_levels()) names += cat("|", level.name);
    program.choice("--isa", names, "only this level of the CPU (default: all that run here)", isa);
    program.list("--threads", "N", "threads of the device", threads, 1, 1024);
  }

  // `measure` takes a level that runs here. Of another a line says why it does not.
  void each(std::string_view bench,
            const std::function<void(const ops::IsaLevel&)>& measure) const {
    for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
      if (!isa.empty() && level.name != isa && !(isa == "auto" && level.chosen)) continue;
      if (level.available)
        measure(level);
      else
        Line(bench).field("isa", level.name).field("skipped", level.reason).print();
    }
  }
};

}  // namespace prefix::bench
