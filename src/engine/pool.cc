#include "engine/pool.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/resources.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr std::string_view kCpus = "option cpus";

Processors cpus_of(const Options& options) { return parse_processors(options.get("cpus"), kCpus); }

}  // namespace

int thread_count(const Options& options) {
  if (options.pool()) return options.pool()->count();
  const auto count = static_cast<int>(options.get_int("threads"));
  if (count > 0) return count;
  const Processors cpus = cpus_of(options);
  const int all = resources().processors;
  return cpus.empty() ? all : std::min(all, static_cast<int>(cpus.size()));
}

std::shared_ptr<Threads> make_threads(const Options& options) {
  Processors cpus = cpus_of(options);
  require_allowed(cpus, kCpus);
  return std::make_shared<Threads>(thread_count(options), std::move(cpus));
}

void check_threads(const Options& options) {
  if (!options.pool()) return require_allowed(cpus_of(options), kCpus);
  for (const char* key : {"threads", "cpus"})
    if (options.is_set(key))
      fail(Code::kInvalidArgument, "option ", key, " = ", quote(options.get(key)),
           " is set beside a pool, whose threads an engine uses as they are");
}

std::shared_ptr<Threads> engine_threads(const Options& options) {
  return options.pool() ? options.pool() : make_threads(options);
}

std::shared_ptr<Threads> make_pool(const Options& options) {
  if (options.pool())
    fail(Code::kInvalidArgument, "the options have a pool; a new pool does not take one");
  for (const OptionInfo& o : option_table())
    if (options.is_set(o.key) && o.key != "threads" && o.key != "cpus")
      fail(Code::kInvalidArgument, "option ", o.key,
           " is set; a pool takes only options threads and cpus");
  return make_threads(options);
}

}  // namespace prefix
