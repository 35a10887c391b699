// The `prefix` command: picks the command, prints help and errors, sets the exit code.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "files.h"

namespace prefix_cli {
namespace {

struct Entry {
  const Command* command;
  int (*run)(const Args&);
};

constexpr Entry kCommands[] = {
    {&kRunCommand, run_command},     {&kInfoCommand, info_command},
    {&kTreeCommand, tree_command},   {&kCacheSimCommand, cache_sim_command},
    {&kOrderCommand, order_command}, {&kPartitionCommand, partition_command},
    {&kBenchCommand, bench_command}, {&kKldCommand, kld_command},
    {&kPackCommand, pack_command},
};

std::string usage() {
  std::string text =
      "prefix - runs language models over a prefix tree: what requests share is computed once\n\n"
      "usage: prefix COMMAND [options]\n\n";
  for (const Entry& e : kCommands)
    text += cat("  ", e.command->name, std::string(11 - e.command->name.size(), ' '),
                e.command->summary, "\n");
  text += "\nprefix COMMAND --help tells more; prefix --version prints the version.\n";
  return text;
}

// `where` becomes the name that errors begin with.
int dispatch(int argc, const char* const* argv, std::string& where) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << usage();
    return kExitOk;
  }
  if (name == "--version") {
    std::cout << "prefix " << prefix_version_string() << "\n";
    return kExitOk;
  }
  for (const Entry& e : kCommands) {
    if (e.command->name != name) continue;
    where += cat(" ", name);
    const Args args(*e.command, argc - 2, argv + 2);
    if (!args.help()) return e.run(args);
    std::cout << help_text(*e.command);
    return kExitOk;
  }
  if (argc < 2) {
    std::cerr << usage();
    return kExitUsage;
  }
  fail("unknown command ", shown(name),
       "; the commands are run, info, tree, cache-sim, order, partition, bench, kld, pack");
}

// Where the caller closed a standard stream, the next file that is opened would stand in its place:
// results would go into a file of the cache, messages into the results, and a model would be read
// as requests. Now none can be read from the first, nor written to the others.
void keep_closed_streams_closed() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)  // the lowest that is free is the one that is given
      open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Standard output that is full or closed loses what was said, whatever wrote it.
int finished(int code) {
  errno = 0;
  std::cout.flush();
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (lost) fail("cannot write to standard output", reason());
  return code;
}

}  // namespace
}  // namespace prefix_cli

int main(int argc, char** argv) {
  std::string where = "prefix";
  try {
    prefix_cli::keep_closed_streams_closed();
    std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is an error like others
    std::ios::sync_with_stdio(false);
    return prefix_cli::finished(prefix_cli::dispatch(argc, argv, where));
  } catch (const prefix::Error& e) {
    std::cerr << where << ": " << e.what() << " (" << e.name() << ")\n";
  } catch (const std::bad_alloc&) {
    std::cerr << where << ": there is no memory for what the command has to hold\n";
  } catch (const std::exception& e) {
    std::cerr << where << ": " << e.what() << "\n";
  }
  return prefix_cli::kExitUsage;
}
