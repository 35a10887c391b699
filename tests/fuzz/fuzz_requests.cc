// Requests of `prefix run`: a stream of JSON.
#include <sstream>
#include <string>

#include "base/json.h"
#include "requests.h"
#include "results.h"
#include "target.h"

namespace prefix::fuzz {

void run_requests(Input input) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(input.data()), input.size()));
  prefix_cli::RequestReader reader(in);
  prefix_cli::Request request;
  int64_t line = 1;
  for (auto kind = reader.next(request); kind != prefix_cli::RequestReader::Kind::kEnd;
       kind = reader.next(request)) {
    KEEP(request.line >= line);
    line = request.line;
    if (kind == prefix_cli::RequestReader::Kind::kFlush) {
      KEEP(request.error.empty());
      continue;
    }
    if (request.error.empty()) continue;
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
