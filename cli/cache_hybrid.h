// `prefix cache-sim --hybrid`: what the simulation of a hybrid model's cache is told.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "args.h"

namespace prefix_cli {

inline constexpr std::string_view kHybridPolicies[] = {"auto", "lru",  "leaf-lru", "marconi",
                                                       "gds",  "gdsf", "block"};

// The model of --model or --model-cost, with --bytes-per-checkpoint and --bytes-per-token.
nlohmann::ordered_json hybrid_model(const Args& args);
// The options of prefix_sim_create. policy: a name, or marconi=ALPHA. capacity:
// bytes, 0 = no limit.
nlohmann::ordered_json hybrid_options(const Args& args, const std::string& policy,
                                      int64_t capacity);
// Throws Failure when a flag is given that has no meaning with --hybrid, or only with it.
void check_hybrid_flags(const Args& args);

std::vector<std::string> split(const std::string& list);  // at commas

}  // namespace prefix_cli
