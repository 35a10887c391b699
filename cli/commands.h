// The commands with their options, so that main() and --help have them in one place.
#pragma once

#include "args.h"

namespace prefix_cli {

extern const Command kRunCommand;
extern const Command kInfoCommand;
extern const Command kTreeCommand;
extern const Command kCacheSimCommand;
extern const Command kBenchCommand;
extern const Command kKldCommand;
extern const Command kPackCommand;
extern const Command kOrderCommand;
extern const Command kPartitionCommand;

int run_command(const Args& args);
int info_command(const Args& args);
int tree_command(const Args& args);
int cache_sim_command(const Args& args);
int bench_command(const Args& args);
int kld_command(const Args& args);
int pack_command(const Args& args);
int order_command(const Args& args);
int partition_command(const Args& args);

}  // namespace prefix_cli
