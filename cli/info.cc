// prefix info: what a model holds and costs, and what this machine offers.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string size_text(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// An engine that is to run on a GPU says why there is none. Its model has no weights:
// they would be read after the device was found.
std::string why_no_gpu() {
  using namespace std::string_view_literals;
  prefix::Source model;
  model.add("config.json", bytes_of(R"({"model_type": "llama", "vocab_size": 2, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "rms_norm_eps": 1e-6,
      "max_position_embeddings": 8, "tie_word_embeddings": true})"));
  model.add("model.safetensors", bytes_of("\2\0\0\0\0\0\0\0{}"sv));
  const prefix::Options options = make_options({{"device", "cuda"}, {"threads", "1"}});
  try {
    Engine::open(model, &options).wait();
  } catch (const prefix::Error& e) {
    return e.what();
  }
  return "no device is listed";
}

std::string gpu_text(const OrderedJson& devices) {
  std::string reason;
  for (const OrderedJson& d : devices) {
    if (d["kind"] != "cuda") continue;
    if (d["available"]) return "available";
    if (reason.empty()) reason = d["reason"];
  }
  return "none: " + (reason.empty() ? why_no_gpu() : reason);
}

OrderedJson machine_json() {
  OrderedJson out;
  out["library"] = prefix_build_info();
  OrderedJson features = OrderedJson::array();
  for (size_t i = 0; i < prefix_feature_count(); ++i) features.push_back(prefix_feature_name(i));
  out["features"] = std::move(features);
  OrderedJson devices = OrderedJson::array();
  for (size_t i = 0; i < prefix_device_count(); ++i) {
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_device_details d = PREFIX_DEVICE_DETAILS_INIT;
    check(prefix_device_info(i, &d, &error), error);
    devices.push_back({{"kind", d.kind},
                       {"name", d.name},
                       {"level", d.level},
                       {"available", d.available == 1},
                       {"chosen", d.chosen == 1},
                       {"reason", d.reason},
                       {"threads", d.threads},
                       {"total_bytes", d.total_bytes},
                       {"free_bytes", d.free_bytes}});
  }
  out["devices"] = std::move(devices);
  out["gpu"] = gpu_text(out["devices"]);
  return out;
}

void print_machine(const OrderedJson& machine) {
  std::printf("library: %s\n", machine["library"].get<std::string>().c_str());
  std::string features;
  for (const OrderedJson& f : machine["features"]) features += " " + f.get<std::string>();
  std::printf("features:%s\n", features.c_str());
  for (const OrderedJson& d : machine["devices"]) {
    const auto text = [&](const char* key) { return d[key].get<std::string>(); };
    const std::string name = text("name"), reason = text("reason");
    std::printf("%s: %s%s%s, %lld threads, %s of memory", text("kind").c_str(), name.c_str(),
                name.empty() ? "" : ", ", text("level").c_str(),
                static_cast<long long>(d["threads"].get<int64_t>()),
                size_text(d["total_bytes"]).c_str());
    if (text("kind") == "cpu") std::printf(", %s free", size_text(d["free_bytes"]).c_str());
    std::printf("%s%s\n", reason.empty() ? "" : "; no engine can run on it: ", reason.c_str());
  }
  std::printf("gpu: %s\n", machine["gpu"].get<std::string>().c_str());
}

OrderedJson options_json() {
  const char* const types[] = {"int", "float", "bool", "text", "ints", "texts"};
  const char* const scopes[] = {"engine", "request", "generate", "embedding", "task"};
  const auto named = [](const auto& names, int32_t number) {
    return number >= 0 && static_cast<size_t>(number) < std::size(names) ? names[number]
                                                                         : "unknown";
  };
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < prefix_option_count(); ++i) {
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_option_details d = PREFIX_OPTION_DETAILS_INIT;
    check(prefix_option_info(i, &d, &error), error);
    OrderedJson option = {{"key", d.key},
                          {"scope", named(scopes, d.scope)},
                          {"type", named(types, d.type)},
                          {"default", d.default_value},
                          {"doc", d.doc}};
    if (*d.values) option["values"] = d.values;
    if (d.type == PREFIX_OPTION_INT || d.type == PREFIX_OPTION_FLOAT)
      option["range"] = {d.minimum, d.maximum};
    out.push_back(std::move(option));
  }
  return out;
}

void print_options(const OrderedJson& options) {
  std::string scope;
  for (const OrderedJson& o : options) {
    if (o["scope"] != scope) {
      scope = o["scope"];
      std::printf("%sof %s:\n", &o == &options.front() ? "" : "\n",
                  scope == "engine"     ? "engines"
                  : scope == "request"  ? "requests of every kind"
                  : scope == "generate" ? "requests that generate"
                  : scope == "task"     ? "tasks"
                                        : "requests for embeddings");
    }
    const auto fallback = o["default"].get<std::string>();
    std::printf("  %-20s %s%s%s\n", o["key"].get<std::string>().c_str(),
                o["type"].get<std::string>().c_str(), fallback.empty() ? "" : ", default ",
                fallback.c_str());
    if (o.contains("values"))
      std::printf("  %20s one of %s\n", "", o["values"].get<std::string>().c_str());
    std::printf("  %20s %s\n", "", o["doc"].get<std::string>().c_str());
  }
}

// Of recurrent layers: a state of each sequence and one more, each in whole pages of the cache.
int64_t states_bytes(const prefix_memory& memory, int64_t state_bytes, int64_t batch) {
  constexpr int64_t kPageTokens = 32;  // docs/hybrid.md
  const int64_t page = std::max<int64_t>(1, kPageTokens * memory.kv_bytes_per_token);
  return (batch + 1) * ((state_bytes + page - 1) / page * page);
}

// What steps take besides grows with the longest path that there can be.
int64_t activation_bytes(const Args& args, const std::string& path, int64_t context) {
  OptionList list = engine_options(args);
  const auto limits = [](const auto& option) { return option.first == "max_positions"; };
  if (std::none_of(list.begin(), list.end(), limits))
    list.emplace_back("max_positions", std::to_string(context));
  const prefix::Options options = make_options(list);
  return Engine::estimate(path, &options).activation_bytes;
}

OrderedJson model_json(const Args& args, const std::string& path) {
  const prefix::Options options = make_options(engine_options(args));
  const prefix_memory memory = Engine::estimate(path, &options);
  const OrderedJson info = OrderedJson::parse(prefix::model_info_json(path));
  const std::vector<std::string> warnings = logged_warnings();
  const int64_t most = info.at("sizes").at("max_positions");
  const int64_t context =
      args.get_int("--context", std::min<int64_t>(4096, most), 1, int64_t{1} << 32);
  const int64_t batch = args.get_int("--batch", 1, 1, 1 << 24);
  if (context > most)
    fail("--context = ", context, " is beyond the ", most, " positions of the model");

  OrderedJson out;
  out["path"] = path;
  for (const char* key :
       {"format", "architecture", "model_type", "sizes", "logits", "tensors", "parameters"})
    out[key] = info.at(key);
  out["kv_bytes_per_token"] = memory.kv_bytes_per_token;
  out["state_bytes"] = info.at("state_bytes");
  out["flops_per_token"] = info.at("flops_per_token");
  out["bytes"] = {{"weights", memory.weight_bytes},
                  {"activations", memory.activation_bytes},
                  {"kv_budget", memory.kv_budget_bytes},
                  {"total", memory.total_bytes}};
  const int64_t kv = memory.kv_bytes_per_token * context * batch;
  const int64_t states = states_bytes(memory, info.at("state_bytes"), batch);
  out["needed"] = {
      {"context", context},
      {"batch", batch},
      {"kv", kv},
      {"states", states},
      {"total", memory.weight_bytes + activation_bytes(args, path, context) + kv + states}};
  out["warnings"] = warnings;
  return out;
}

void print_model(const OrderedJson& m) {
  const auto bytes = [](const OrderedJson& value) { return size_text(value.get<int64_t>()); };
  // The names of a file and what is in it may be of anybody.
  const auto text = [&](const char* key) { return without_controls(m[key].get<std::string>()); };
  std::printf("%s: %s, architecture %s, %s parameters\n", text("path").c_str(),
              text("format").c_str(), text("architecture").c_str(),
              grouped(m["parameters"].get<int64_t>()).c_str());
  for (const auto& [name, value] : m["sizes"].items())
    std::printf("  %-16s %s\n", name.c_str(), grouped(value.get<int64_t>()).c_str());
  if (!m["logits"].get<bool>()) std::printf("  no output matrix: it embeds only\n");
  std::printf("tensors:\n");
  for (const OrderedJson& g : m["tensors"])
    std::printf("  %-16s %-6s %5lld tensors %16s parameters\n",
                g["group"].get<std::string>().c_str(), g["dtype"].get<std::string>().c_str(),
                static_cast<long long>(g["tensors"].get<int64_t>()),
                grouped(g["parameters"].get<int64_t>()).c_str());
  std::printf("per token: %s of keys and values, %s FLOPs\n",
              bytes(m["kv_bytes_per_token"]).c_str(),
              grouped(m["flops_per_token"].get<int64_t>()).c_str());
  if (m["state_bytes"] != 0)
    std::printf("a state of the recurrent layers: %s\n", bytes(m["state_bytes"]).c_str());
  std::printf("in memory: weights %s, activations %s, keys and values up to %s, total %s\n",
              bytes(m["bytes"]["weights"]).c_str(), bytes(m["bytes"]["activations"]).c_str(),
              bytes(m["bytes"]["kv_budget"]).c_str(), bytes(m["bytes"]["total"]).c_str());
  const OrderedJson& n = m["needed"];
  const std::string states = n["states"] == 0 ? "" : cat(", states ", bytes(n["states"]));
  const auto batch = n["batch"].get<int64_t>();
  std::printf("for %s of %s tokens%s: keys and values %s%s, total %s\n",
              batch == 1 ? "1 sequence" : cat(grouped(batch), " sequences").c_str(),
              grouped(n["context"].get<int64_t>()).c_str(), batch == 1 ? "" : " that share nothing",
              bytes(n["kv"]).c_str(), states.c_str(), bytes(n["total"]).c_str());
  for (const OrderedJson& warning : m["warnings"])
    std::printf("warning: %s\n", warning.get<std::string>().c_str());
}

}  // namespace

int info_command(const Args& args) {
  const auto& paths = args.positionals();
  if (paths.size() > 1) fail("takes 1 model; ", paths.size(), " are given");
  if (paths.empty() && !args.has("--machine") && !args.has("--options"))
    fail("needs a MODEL, --machine or --options; see prefix info --help");
  OrderedJson out = OrderedJson::object();
  if (!paths.empty()) out["model"] = model_json(args, paths[0]);
  if (args.has("--machine")) out["machine"] = machine_json();
  if (args.has("--options")) out["options"] = options_json();
  if (args.has("--json")) {
    std::cout << out.dump(2) << std::endl;
    return kExitOk;
  }
  if (out.contains("model")) print_model(out["model"]);
  if (out.contains("machine")) print_machine(out["machine"]);
  if (out.contains("options")) print_options(out["options"]);
  std::fflush(stdout);
  return kExitOk;
}

}  // namespace prefix_cli
