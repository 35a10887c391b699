// Traces of `prefix cache-sim`: JSON Lines.
#include <string>

#include "cache_trace.h"
#include "common.h"
#include "target.h"

namespace prefix::fuzz {

void run_trace(Input input) {
  constexpr size_t kMaxTokens = 4096;  // a run of the real limit takes a tenth of a second
  Taker take(input);
  while (!take.empty()) {
    const std::string line(take.line());
    prefix_cli::TraceRequest request;
    try {
      prefix_cli::parse_trace_line(line, request, kMaxTokens);
    } catch (const prefix_cli::Failure&) {
      continue;
    }
    KEEP(request.session >= 0 && request.turn >= 0);
    KEEP(request.prompt >= 1 && request.prompt <= request.tokens.size());
    KEEP(request.tokens.size() <= kMaxTokens);
    for (const int32_t token : request.tokens) KEEP(token >= 0);
  }
}

}  // namespace prefix::fuzz
