#include "cache_hybrid.h"

#include <charconv>
#include <optional>

#include "common.h"

namespace prefix_cli {
namespace {

using Json = nlohmann::ordered_json;

struct KnownModel {
  std::string_view name;
  std::string_view cost;
};

// Bytes of the real models; operations by the formulas for layers of their width.
constexpr KnownModel kModels[] = {
    {"default7b",
     "recurrent_layers=24,attention_layers=4,mlp_layers=28,width=4096,state_width=128"},
    {"qwen3.5-4b",
     "recurrent_layers=24,attention_layers=8,mlp_layers=32,width=2560,state_width=128,"
     "state_bytes=51511296,kv_bytes=32768"},
    {"granite-h-1b",
     "recurrent_layers=36,attention_layers=4,mlp_layers=40,width=1536,state_width=128,"
     "state_bytes=57341952,kv_bytes=8192"},
};

std::string known_models() {
  std::string names;
  for (const KnownModel& m : kModels)
    names += std::string(names.empty() ? "" : ", ") + std::string(m.name);
  return names;
}

double alpha_in(std::string_view policy, std::string_view text) {
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size())
    fail("--policy ", shown(policy), " has ", shown(text), " where the number alpha belongs");
  return alpha;
}

}  // namespace

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

Json hybrid_model(const Args& args) {
  const std::string given = args.get("--model-cost", "default7b");
  std::string list = given;
  for (const KnownModel& m : kModels)
    if (given == m.name) list = m.cost;
  Json model = Json::object();
  for (const std::string& part : split(list)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos)
      fail("--model-cost has ", shown(part), "; it is one of ", known_models(),
           ", or a list of KEY=NUMBER");
    const std::string key = part.substr(0, equals);
    if (model.contains(key)) fail("--model-cost has ", shown(key), " twice");
    model[key] = parse_int("--model-cost " + key, part.substr(equals + 1), 0, INT64_MAX);
  }
  const auto bytes = [&](const char* flag, const char* key) {
    if (args.has(flag)) model[key] = args.get_int(flag, 0, 0, int64_t{1} << 40);
  };
  bytes("--bytes-per-checkpoint", "state_bytes");
  bytes("--bytes-per-token", "kv_bytes");
  return model;
}

Json hybrid_options(const Args& args, const std::string& policy, int64_t capacity) {
  Json out;
  out["hybrid"] = hybrid_model(args);
  const size_t equals = policy.find('=');
  out["policy"] = policy.substr(0, equals);
  if (equals != std::string::npos)
    out["alpha"] = alpha_in(policy, std::string_view(policy).substr(equals + 1));
  out["capacity"] = capacity;
  if (args.has("--compat")) out["compat"] = args.choice("--compat", "marconi", "marconi");
  if (args.has("--admission")) out["admission"] = split(args.get("--admission"));
  if (args.has("--max-placed")) out["max_placed"] = args.get_int("--max-placed", 1, 1, INT32_MAX);
  if (args.has("--max-states")) out["max_states"] = args.get_int("--max-states", 0, 1, INT32_MAX);
  if (args.has("--pitfalls")) {
    out["pitfalls"] = Json::array();
    for (const std::string& number : split(args.get("--pitfalls")))
      out["pitfalls"].push_back(parse_int("--pitfalls", number, 0, INT32_MAX));
  }
  return out;
}

void check_hybrid_flags(const Args& args) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* why) {
    for (const char* const flag : flags)
      if (args.has(flag)) fail(flag, why);
  };
  if (args.has("--hybrid"))
    refuse({"--ops", "--page", "--bigram", "--model"}, " is not for --hybrid");
  else
    refuse({"--model-cost", "--bytes-per-checkpoint", "--admission", "--max-placed", "--max-states",
            "--pitfalls"},
           " is for models with recurrent layers: give --hybrid, too");
}

}  // namespace prefix_cli
