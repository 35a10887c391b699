// Processors by number, as the system counts them: which ones the process may use, lists of them as
// text ("0-3,8"), and threads that stay on some of them.
#pragma once

#include <pthread.h>

#include <string>
#include <string_view>
#include <vector>

namespace prefix {

// Ascending, each once.
using Processors = std::vector<int>;

// Those that the scheduler may put the calling thread on, and threads that it starts: the mask that
// taskset, a cpuset or a container set. At least one.
Processors allowed_processors();

// "0-3,8", in any order; the empty text is the empty list. Throws kInvalidArgument for what is no
// such list, and kOutOfRange for a number beyond what systems have; `what` begins the message.
Processors parse_processors(std::string_view text, std::string_view what);
// The shortest text that reads back as the same list.
std::string processors_text(const Processors& list);

// Throws kOutOfRange when a processor of the list may not be used, naming it and those that may: by
// the calling thread, or by the first one of the process, which says what the process may where the
// caller bound itself.
void require_allowed(const Processors& list, std::string_view what);

// As their maker calls them; empty when the system does not say. `root`: where /proc is looked for,
// for tests.
std::string processor_name(const std::string& root = "");

// From now on the thread runs on these alone; with none it stays as it is. Returns an errno.
int bind_thread(pthread_t thread, const Processors& list);

}  // namespace prefix
