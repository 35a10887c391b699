// Requests of `prefix run`: JSON Lines.
#include <string>

#include "base/json.h"
#include "requests.h"
#include "results.h"
#include "target.h"

namespace prefix::fuzz {

void run_requests(Input input) {
  Taker take(input);
  for (int64_t number = 1; !take.empty(); ++number) {
    const std::string line(take.line());
    bool flush = false;
    const prefix_cli::Request request = prefix_cli::parse_request(line, number, flush);
    KEEP(request.line == number && !(flush && !request.error.empty()));
    if (flush || request.error.empty()) continue;
    // What is wrong with a line goes out as a line.
    prefix_cli::Result result;
    result.status = "format";
    result.message = request.error;
    const std::string out = prefix_cli::result_line(request, result);
    KEEP(out.find('\n') == std::string::npos);
    parse_json(out, "the result");
  }
}

}  // namespace prefix::fuzz
