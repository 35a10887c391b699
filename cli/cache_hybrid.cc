#include "cache_hybrid.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "api.h"
#include "common.h"
#include "engine_args.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

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
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(alpha))
    fail("--policy ", shown(policy), " has ", shown(text), " where the number alpha belongs");
  return alpha;
}

// What the files of a model say. The matrices of all layers count as one, and the products of
// queries with keys and of shares with values, in the half below the diagonal, beside them.
OrderedJson model_of_files(const Args& args) {
  const std::string path = args.get("--model");
  const auto info = nlohmann::json::parse(prefix::model_info_json(path));
  const auto& sizes = info.at("sizes");
  const auto recurrent = sizes.at("recurrent_layers").get<int64_t>();
  if (recurrent == 0) fail("--model ", shown(path), " has no recurrent layers: leave --hybrid out");
  const prefix::Options options = make_options(engine_options(args));
  OrderedJson model;
  model["recurrent_layers"] = 0;
  model["attention_layers"] = sizes.at("layers").get<int64_t>() - recurrent;
  model["attention_flops"] = 0;
  model["attention_flops_squared"] =
      2 * sizes.at("heads").get<int64_t>() * sizes.at("head_dim").get<int64_t>();
  model["mlp_layers"] = 1;
  model["mlp_flops"] = info.at("flops_per_token");
  model["state_bytes"] = info.at("state_bytes");
  model["kv_bytes"] = Engine::estimate(path, &options).kv_bytes_per_token;
  return model;
}

OrderedJson model_of_list(const std::string& given) {
  std::string list = given;
  for (const KnownModel& m : kModels)
    if (given == m.name) list = m.cost;
  OrderedJson model = OrderedJson::object();
  for (const std::string& part : split(list)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos)
      fail("--model-cost has ", shown(part), "; it is one of ", known_models(),
           ", or a list of KEY=NUMBER");
    const std::string key = part.substr(0, equals);
    if (model.contains(key)) fail("--model-cost has ", shown(key), " twice");
    model[key] = parse_int("--model-cost " + key, part.substr(equals + 1), 0, INT64_MAX);
  }
  return model;
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

OrderedJson hybrid_model(const Args& args) {
  if (args.has("--model") && args.has("--model-cost"))
    fail("--model and --model-cost both say what a model costs: give one of them");
  OrderedJson model = args.has("--model") ? model_of_files(args)
                                          : model_of_list(args.get("--model-cost", "default7b"));
  const auto bytes = [&](const char* flag, const char* key) {
    if (args.has(flag)) model[key] = args.get_int(flag, 0, 0, int64_t{1} << 40);
  };
  bytes("--bytes-per-checkpoint", "state_bytes");
  bytes("--bytes-per-token", "kv_bytes");
  return model;
}

OrderedJson hybrid_options(const Args& args, const std::string& policy, int64_t capacity) {
  OrderedJson out;
  out["hybrid"] = hybrid_model(args);
  const size_t equals = policy.find('=');
  out["policy"] = policy.substr(0, equals);
  if (equals != std::string::npos)
    out["alpha"] = alpha_in(policy, std::string_view(policy).substr(equals + 1));
  out["capacity"] = capacity;
  if (args.has("--compat")) {
    out["compat"] = args.choice("--compat", "marconi", "sglang|marconi");
    if (out["compat"] == "sglang") fail("--compat sglang goes without --hybrid, marconi with it");
  }
  if (args.has("--admission")) out["admission"] = split(args.get("--admission"));
  if (args.has("--max-placed")) out["max_placed"] = args.get_int("--max-placed", 1, 1, INT32_MAX);
  if (args.has("--max-states")) out["max_states"] = args.get_int("--max-states", 0, 1, INT32_MAX);
  if (args.has("--pitfalls")) {
    out["pitfalls"] = OrderedJson::array();
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
    refuse({"--ops", "--page", "--bigram"}, " is not for --hybrid");
  else
    refuse({"--model-cost", "--bytes-per-checkpoint", "--admission", "--max-placed", "--max-states",
            "--pitfalls"},
           " is for models with recurrent layers: give --hybrid, too");
}

}  // namespace prefix_cli
