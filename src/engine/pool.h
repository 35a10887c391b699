// The worker threads of engines, as options name them.
//
//   options { threads, cpus } ──> Threads <── every engine that was given it (Options::pool), or the
//                                             one engine that made it
#pragma once

#include <memory>

#include "base/threads.h"
#include "engine/options.h"

namespace prefix {

// How many an engine of these options has.
int thread_count(const Options& options);

// By options threads and cpus. Throws kOutOfRange for a processor that this process may not use,
// naming those that it may, and what Threads does.
std::shared_ptr<Threads> make_threads(const Options& options);

// Throws kInvalidArgument for a pool beside options threads or cpus, and what make_threads does for
// a processor. Starts nothing.
void check_threads(const Options& options);
// Those of the options' pool, or an engine's own.
std::shared_ptr<Threads> engine_threads(const Options& options);

// A pool for several engines. Throws kInvalidArgument for an option that pools do not take.
std::shared_ptr<Threads> make_pool(const Options& options);

}  // namespace prefix
