// The options that every command with an engine shares.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api.h"
#include "args.h"

namespace prefix_cli {

// --threads, --device, --dtype, --isa, --sharing, --cache, --rows and --option KEY=VALUE as options
// of the library.
OptionList engine_options(const Args& args);
// Fails for an option with two values.
void refuse_contradictions(const OptionList& options);

// --adapter NAME=DIR of each, in order.
std::vector<std::pair<std::string, std::string>> adapters_of(const Args& args);

inline constexpr Flag kThreadsFlag{"--threads", "N",
                                   "worker threads; default: one per processor it may use"};
inline constexpr Flag kDeviceFlag{"--device", "cpu|cuda[:N]", "where the model runs; default cpu"};
inline constexpr Flag kDtypeFlag{"--dtype", "bf16|f32", "type of weights, keys and values"};
inline constexpr Flag kIsaFlag{"--isa", "NAME", "instruction set level; default: the fastest"};
inline constexpr Flag kCacheFlag{"--cache", "BYTES",
                                 "most bytes for keys and values, e.g. 512M or 4G;\n"
                                 "off = keep nothing between batches"};
inline constexpr Flag kRowsFlag{"--rows", "N", "most tokens computed in one step"};
inline constexpr Flag kOptionFlag{"--option", "KEY=VALUE",
                                  "any option of the library; may be repeated", true};

}  // namespace prefix_cli
