// Traces of requests for `prefix cache-sim`: one JSON object per line, in the order of arrival.
//
//   {"session_id": 3, "turn_id": 0, "ts": 1.5, "input_tokens": [5, 6, 7], "output_tokens": [8, 9]}
//   {"session_id": 3, "turn_id": 1, "ts": 9.0, "input_runs": [[7, 5]], "output_runs": [[8, 2]]}
//
// A run [seed, length] stands for the first `length` numbers of the generator splitmix64 that
// starts at `seed`, each modulo 32000: a text of which only the name is written down.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace prefix_cli {

struct TraceRequest {
  int64_t session = 0;
  int64_t turn = 0;
  std::string name_space;
  std::vector<int32_t> tokens;  // prompt and answer
  size_t prompt = 0;            // tokens of the prompt
};

constexpr size_t kMaxTraceTokens = size_t{1} << 24;  // of one request

// Throws Failure for a line that is malformed or has too many tokens.
void parse_trace_line(const std::string& line, TraceRequest& request,
                      size_t max_tokens = kMaxTraceTokens);

class Trace {
 public:
  // Opens the file; reads nothing yet. `max_bytes` of tokens are kept for the next reading; a
  // longer trace is read from the file every time.
  explicit Trace(std::string path, int64_t max_bytes = int64_t{256} << 20);

  // Calls `each` with every request and how much of the trace is done, in [0, 1].
  using Each = std::function<void(const TraceRequest&, double)>;
  void read(const Each& each);

 private:
  void read_file(const Each& each);
  void keep(const TraceRequest& request);

  std::string path_;
  int64_t max_bytes_;
  int64_t kept_bytes_ = 0;
  bool keeps_ = true;   // all requests so far are in kept_
  bool whole_ = false;  // the file was read to its end
  std::vector<TraceRequest> kept_;
  std::set<std::pair<int64_t, int64_t>> turns_;  // seen; empty after the first reading
};

}  // namespace prefix_cli
