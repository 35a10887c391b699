// prefix cache-sim: the cache without a model. It replays operations, to look at the tree closely,
// or a trace of requests, to see what a cache of some size would save.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "api.h"
#include "args.h"
#include "cache_hybrid.h"
#include "cache_trace.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"
#include "files.h"
#include "json_stream.h"
#include "progress.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// capacity: what the simulation counts, see Capacity::limit.
std::string sim_options(const Args& args, const std::string& policy, int64_t capacity) {
  if (args.has("--hybrid")) return hybrid_options(args, policy, capacity).dump();
  OrderedJson out;
  out["policy"] = policy;
  out["page"] = args.get_int("--page", 1, 1, 65536);
  out["capacity"] = capacity;
  out["bigram"] = args.has("--bigram");
  if (args.has("--compat")) {
    out["compat"] = args.choice("--compat", "sglang", "sglang|marconi");
    if (out["compat"] == "marconi") fail("--compat marconi goes with --hybrid, sglang without");
  }
  return out.dump();
}

// ---- Operations ------------------------------------------------------------------------------

int run_operations(const Args& args) {
  for (const char* const flag :
       {"--bytes-per-token", "--model", "--dtype", "--per-request", "--table"})
    if (args.has(flag)) fail(flag, " is for --trace, not for --ops");
  const int64_t capacity = parse_size("--capacity", args.get("--capacity", "0"));
  Simulation simulation(sim_options(args, args.get("--policy", "lru"), capacity));
  Input input("--ops", args.get("--ops"));
  std::istream& in = input.stream();
  int64_t failed = 0;
  const auto refuse = [&failed](const std::string& error, const std::string& message) {
    ++failed;
    const OrderedJson out = {{"error", error}, {"message", message}};
    std::cout << out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  };
  JsonStream stream(in);
  std::string text;
  while (true) {
    try {
      if (!stream.next(text)) break;
      std::cout << simulation.apply(text) << '\n';
    } catch (const prefix::Error& e) {
      refuse(e.name(), e.what());
    } catch (const Failure& e) {  // the stream goes on behind it
      refuse(prefix_status_name(PREFIX_ERR_INVALID_ARGUMENT),
             cat("line ", stream.line(), ": ", e.what()));
    }
    // A program at the other end of the pipe may wait for this result before its next operation.
    if (in.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  input.check_end();
  std::cout.flush();
  if (!std::cout) fail("cannot write the results to standard output");
  return failed ? kExitSomeFailed : kExitOk;
}

// ---- Traces ----------------------------------------------------------------------------------

struct Capacity {
  std::string text;  // as it was given
  int64_t bytes = 0;
  int64_t limit = 0;  // tokens, with --hybrid bytes; 0: none
};

// What a token of some model costs; 0 where neither a flag nor a model says.
struct Costs {
  int64_t bytes_per_token = 0;
  double flops_per_token = 0;
};

Costs read_costs(const Args& args) {
  Costs costs;
  if (args.has("--hybrid")) return costs;  // the simulation counts them itself
  if (args.has("--model")) {
    const std::string path = args.get("--model");
    const prefix::Options options = make_options(engine_options(args));
    const prefix_memory memory = Engine::estimate(path, &options);
    costs.bytes_per_token = memory.kv_bytes_per_token;
    costs.flops_per_token =
        nlohmann::json::parse(prefix::model_info_json(path)).at("flops_per_token");
  }
  costs.bytes_per_token =
      args.get_int("--bytes-per-token", costs.bytes_per_token, 1, int64_t{1} << 40);
  return costs;
}

std::vector<Capacity> read_capacities(const Args& args, const Costs& costs) {
  if (!args.has("--capacity")) return {Capacity{"no limit", 0, 0}};
  const bool hybrid = args.has("--hybrid");
  if (!hybrid && costs.bytes_per_token == 0)
    fail(
        "--capacity is in bytes: say with --bytes-per-token or --model what a "
        "token takes");
  std::vector<Capacity> capacities;
  for (const std::string& text : split(args.get("--capacity"))) {
    const int64_t bytes = parse_size("--capacity", text);
    const int64_t limit = hybrid ? bytes : bytes / costs.bytes_per_token;
    if (limit == 0)
      fail("--capacity = ", shown(text), " holds no token",
           hybrid ? "" : cat(": one takes ", costs.bytes_per_token, " bytes"),
           "; without it there is no limit");
    capacities.push_back({text, bytes, limit});
  }
  return capacities;
}

// Those that an engine has, but for the one that chooses among them and the one about states.
std::vector<std::string> engine_policies() {
  std::string names = option_details("cache_policy").values;
  std::replace(names.begin(), names.end(), '|', ',');
  std::vector<std::string> policies = split(names);
  std::erase(policies, "auto");
  std::erase(policies, "marconi");
  return policies;
}

std::vector<std::string> read_policies(const Args& args, const std::vector<Capacity>& capacities) {
  const bool hybrid = args.has("--hybrid");
  const std::string value = args.get("--policy", hybrid ? "auto" : "lru");
  std::vector<std::string> policies;
  if (value == "all" && hybrid) {
    policies.assign(std::begin(kHybridPolicies), std::end(kHybridPolicies));
  } else if (value == "all") {
    policies = engine_policies();
  } else {
    policies = split(value);
  }
  // The library knows the names: a wrong one must be told before a long run, not in its middle.
  for (const std::string& policy : policies)
    for (const Capacity& capacity : capacities)
      Simulation(sim_options(args, policy, capacity.limit));
  return policies;
}

struct Outcome {
  std::string policy;
  const Capacity* capacity = nullptr;
  int64_t requests = 0;
  int64_t hits = 0;
  int64_t input = 0;
  int64_t reused = 0;
  OrderedJson stats;  // of the simulation
  double seconds = 0;

  double rate() const {
    return input > 0 ? static_cast<double>(reused) / static_cast<double>(input) : 0;
  }
};

// What is printed of a capacity: bytes, or null for no limit.
OrderedJson capacity_json(const Capacity& capacity) {
  return capacity.limit > 0 ? OrderedJson(capacity.bytes) : OrderedJson(nullptr);
}

// FLOPs of the reused tokens: counted by the simulation of a hybrid model, else a number for each
// token, or unknown.
std::optional<double> flops_saved(const Outcome& o, const Costs& costs) {
  if (o.stats.contains("flops_saved")) return o.stats["flops_saved"].get<double>();
  if (costs.flops_per_token > 0) return costs.flops_per_token * static_cast<double>(o.reused);
  return std::nullopt;
}

OrderedJson outcome_json(const Outcome& o, const Costs& costs) {
  const bool hybrid = o.stats.contains("states");
  OrderedJson out;
  out["policy"] = o.policy;
  out["capacity"] = capacity_json(*o.capacity);
  if (!hybrid)
    out["capacity_tokens"] =
        o.capacity->limit > 0 ? OrderedJson(o.capacity->limit) : OrderedJson(nullptr);
  out["requests"] = o.requests;
  out["hits"] = o.hits;
  out["input_tokens"] = o.input;
  out["reused_tokens"] = o.reused;
  out["token_hit_rate"] = o.rate();
  if (const std::optional<double> flops = flops_saved(o, costs)) out["flops_saved"] = *flops;
  out["evictions"] = o.stats.at("evictions");
  if (hybrid)
    for (const char* const key :
         {"states", "tokens", "bytes", "peak_bytes", "refused", "in_use", "alpha", "window"})
      out[key] = o.stats.at(key);
  out["seconds"] = o.seconds;
  return out;
}

void print_row(const Outcome& o, const Costs& costs, bool first) {
  const bool hybrid = o.stats.contains("states");
  const std::optional<double> flops = flops_saved(o, costs);
  if (first) {
    std::printf("%-12s %14s %14s %10s %10s %15s %7s %10s %8s", "policy", "capacity",
                hybrid ? "states" : "tokens", "requests", "hits", "reused tokens", "hit %",
                "evictions", "seconds");
    std::printf(flops ? " %12s\n" : "\n", "TFLOP saved");
  }
  const std::string held = hybrid                  ? grouped(o.stats.at("states").get<int64_t>())
                           : o.capacity->limit > 0 ? grouped(o.capacity->limit)
                                                   : "-";
  std::printf("%-12s %14s %14s %10s %10s %15s %7.2f %10s %8.2f", o.policy.c_str(),
              o.capacity->text.c_str(), held.c_str(), grouped(o.requests).c_str(),
              grouped(o.hits).c_str(), grouped(o.reused).c_str(), 100 * o.rate(),
              grouped(o.stats.at("evictions").get<int64_t>()).c_str(), o.seconds);
  if (flops) std::printf(" %12.1f", *flops * 1e-12);
  std::printf("\n");
}

Outcome replay(Trace& trace, const std::string& options, const std::string& policy,
               const Capacity& capacity, std::ostream* per_request,
               const std::function<void(double)>& progress) {
  using Clock = std::chrono::steady_clock;
  Outcome o;
  o.policy = policy;
  o.capacity = &capacity;
  Simulation simulation(options);
  Clock::duration time{};
  trace.read([&](const TraceRequest& request, double done) {
    const Clock::time_point start = Clock::now();
    const int64_t reused = simulation.request(request.name_space, request.tokens, request.prompt);
    time += Clock::now() - start;
    ++o.requests;
    o.hits += reused > 0;
    o.input += static_cast<int64_t>(request.prompt);
    o.reused += reused;
    if (per_request) {
      OrderedJson out;
      out["policy"] = policy;
      out["capacity"] = capacity_json(capacity);
      out["session_id"] = request.session;
      out["turn_id"] = request.turn;
      out["input"] = request.prompt;
      out["reused"] = reused;
      *per_request << out.dump() << '\n';
    }
    progress(done);
  });
  o.seconds = std::chrono::duration<double>(time).count();
  o.stats = OrderedJson::parse(simulation.apply(R"({"op":"stats"})"));
  return o;
}

int run_trace(const Args& args) {
  const std::string path = args.get("--trace");
  Progress progress("prefix cache-sim", args.choice("--progress", "auto", "auto|on|off"));
  const Costs costs = read_costs(args);
  const std::vector<Capacity> capacities = read_capacities(args, costs);
  const std::vector<std::string> policies = read_policies(args, capacities);
  Trace trace(path);
  auto per_request =
      output_if_named(args, "--per-request", {{"--trace", path}, {"--model", args.get("--model")}});
  bool first = true;
  for (const std::string& policy : policies) {
    for (const Capacity& capacity : capacities) {
      const std::string what = cat(policy, ", ", capacity.text);
      const Outcome o = replay(trace, sim_options(args, policy, capacity.limit), policy, capacity,
                               per_request ? &per_request->stream() : nullptr,
                               [&](double done) { progress.show_share(what, done); });
      progress.clear();
      if (args.has("--table")) {
        print_row(o, costs, first);
        std::fflush(stdout);
      } else {
        std::cout << outcome_json(o, costs).dump() << std::endl;
      }
      first = false;
    }
  }
  if (per_request) per_request->finish();
  return kExitOk;
}

}  // namespace

int cache_sim_command(const Args& args) {
  check_hybrid_flags(args);
  if (args.has("--ops") == args.has("--trace"))
    fail("needs ", args.has("--ops") ? "only " : "", "one of --ops and --trace",
         "; see prefix cache-sim --help");
  return args.has("--ops") ? run_operations(args) : run_trace(args);
}

}  // namespace prefix_cli
