// A libcudnn.so that looks at every descriptor it is given, and then does on the CPU what the
// operations of a graph say, one after the other, whatever they are: a mask, a stride or an operand
// that is wrong comes out as a wrong result. Host memory stands for the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace prefix::ops::gpu {

struct FakeCudnn {
  // What it does. Engines are numbered from 0, in the order in which they are proposed.
  size_t version = 91901;
  int engines = 3;
  std::function<bool(int engine)> engine_refuses;
  int64_t workspace = 256;                                         // that plans want
  int create_answer = 0, finalize_answer = 0, execute_answer = 0;  // unless 0, all they say
  int finalize_type = -1;  // descriptors to which finalize_answer belongs

  // What was asked of it.
  int alive = 0, heuristics = 0, plans = 0, executed = 0, streams = 0;
  int engine = -1;                 // of the last execution
  std::vector<std::string> wrong;  // mistakes of the caller
  int waits = 0;                   // counted by the test
};

FakeCudnn& fake_cudnn();

}  // namespace prefix::ops::gpu
