#include "abi/simulation_hybrid.h"

#include <array>
#include <charconv>

#include "abi/simulation_json.h"
#include "base/json_text.h"

namespace prefix::abi {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 18;
// So that the sum over all states and tokens that fit into memory stays below 2^63.
constexpr int64_t kMaxStateBytes = int64_t{1} << 36;
constexpr int64_t kMaxKvBytes = int64_t{1} << 28;
constexpr int64_t kMaxFlops = int64_t{1} << 50;  // of a token in a layer
constexpr int64_t kMaxCapacity = int64_t{1} << 60;
constexpr int64_t kMaxPlaced = 16;
constexpr double kMaxAlpha = 1e6;

constexpr std::string_view kMethods[] = {"auto", "lru",  "leaf-lru", "marconi",
                                         "gds",  "gdsf", "block"};

std::string listed(std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view n : names) all += cat(all.empty() ? "" : ", ", n);
  return all;
}

double number_field(const Json& object, const char* key, double minimum, double maximum) {
  const Json& value = object.at(key);
  if (!value.is_number())
    fail(Code::kInvalidArgument, '"', key, "\" is ", json_shown(value), ", not a number");
  const auto number = value.get<double>();
  if (!(number >= minimum && number <= maximum))
    fail(Code::kOutOfRange, '"', key, "\" is ", json_shown(value), ", outside [", minimum, ", ",
         maximum, "]");
  return number;
}

HybridCost cost_in(const Json& model) {
  require_object(model, "\"hybrid\"");
  constexpr std::array<std::string_view, 11> kKeys = {"recurrent_layers", "attention_layers",
                                                      "mlp_layers",       "width",
                                                      "state_width",      "state_bytes",
                                                      "kv_bytes",         "recurrent_flops",
                                                      "attention_flops",  "attention_flops_squared",
                                                      "mlp_flops"};
  only_keys(model, "\"hybrid\"", kKeys);
  const MarconiModel usual;
  const auto layers = [&](const char* key, int64_t absent) {
    return integer_field(model, key, 0, kMaxLayers, absent);
  };
  HybridCost cost = marconi_cost(
      {.recurrent_layers = layers("recurrent_layers", usual.recurrent_layers),
       .attention_layers = layers("attention_layers", usual.attention_layers),
       .mlp_layers = layers("mlp_layers", usual.mlp_layers),
       .width = integer_field(model, "width", 1, kMaxWidth, usual.width),
       .state_width = integer_field(model, "state_width", 1, kMaxWidth, usual.state_width)});
  const auto given = [&](const char* key, int64_t maximum, int64_t& value) {
    value = integer_field(model, key, 0, maximum, value);
  };
  given("state_bytes", kMaxStateBytes, cost.state_bytes);
  given("kv_bytes", kMaxKvBytes, cost.kv_bytes);
  given("recurrent_flops", kMaxFlops, cost.recurrent.linear);
  given("attention_flops", kMaxFlops, cost.attention.linear);
  given("attention_flops_squared", kMaxFlops, cost.attention.quadratic);
  given("mlp_flops", kMaxFlops, cost.mlp.linear);
  if (cost.state_bytes > kMaxStateBytes || cost.kv_bytes > kMaxKvBytes)
    fail(Code::kOutOfRange, "a state of this model takes ", cost.state_bytes, " bytes and a token ",
         cost.kv_bytes, "; the limits are ", kMaxStateBytes, " and ", kMaxKvBytes);
  if (cost.state_bytes + cost.kv_bytes == 0)
    fail(Code::kInvalidArgument, "neither a state nor a token of this model takes memory");
  return cost;
}

HybridMethod method_in(const Json& options) {
  const Json* const policy = field(options, "policy");
  if (!policy) return HybridMethod::kAuto;
  const std::string_view name = text_of(*policy, "policy");
  const auto* const known = std::find(std::begin(kMethods), std::end(kMethods), name);
  if (known == std::end(kMethods))
    fail(Code::kInvalidArgument, "\"policy\" is ", quote(name), ", not one of ", listed(kMethods));
  return static_cast<HybridMethod>(known - std::begin(kMethods));
}

HybridAdmission admission_in(const Json& options) {
  HybridAdmission admission;
  admission.max_states = integer_field(options, "max_states", 0, INT32_MAX, 0);
  const Json* const list = field(options, "admission");
  if (!list) return admission;
  if (!list->is_array())
    fail(Code::kInvalidArgument, "\"admission\" is ", json_shown(*list), ", not a list");
  admission.branch = admission.end = false;
  bool placed = false;
  for (const Json& v : *list) {
    const std::string_view name = text_of(v, "admission");
    bool* const where = name == "branch"   ? &admission.branch
                        : name == "end"    ? &admission.end
                        : name == "prompt" ? &admission.prompt
                        : name == "placed" ? &placed
                                           : nullptr;
    if (!where)
      fail(Code::kInvalidArgument, "\"admission\" has ", quote(name),
           ", not one of branch, end, prompt, placed");
    *where = true;
  }
  if (placed) admission.placed = integer_field(options, "max_placed", 1, kMaxPlaced, 1);
  return admission;
}

MarconiPitfalls pitfalls_in(const Json& options) {
  MarconiPitfalls pitfalls;
  const Json* const list = field(options, "pitfalls");
  if (!list) return pitfalls;
  pitfalls.insert_refreshes = false;
  for (const int64_t number : integers<int64_t>(*list, "pitfalls", INT32_MAX)) {
    bool* const which = number == 3   ? &pitfalls.mlp_minus_attention
                        : number == 4 ? &pitfalls.wrong_leaf_bytes
                        : number == 5 ? &pitfalls.false_hits
                        : number == 9 ? &pitfalls.insert_refreshes
                                      : nullptr;
    if (!which) fail(Code::kOutOfRange, "\"pitfalls\" has ", number, ", not one of 3, 4, 5, 9");
    *which = true;
  }
  return pitfalls;
}

}  // namespace

HybridOptions hybrid_options_in(const Json& o) {
  constexpr std::array<std::string_view, 9> kKeys = {"hybrid",     "policy",     "capacity",
                                                     "compat",     "alpha",      "admission",
                                                     "max_placed", "max_states", "pitfalls"};

  only_keys(o, "options of a hybrid model", kKeys);
  HybridOptions options{.cost = cost_in(o.at("hybrid")),
                        .method = method_in(o),
                        .capacity = integer_field(o, "capacity", 0, kMaxCapacity, 0),
                        .admission = admission_in(o),
                        .pitfalls = pitfalls_in(o)};
  if (const Json* const compat = field(o, "compat")) {
    const std::string_view name = text_of(*compat, "compat");
    if (!name.empty() && name != "marconi")
      fail(Code::kInvalidArgument, "\"compat\" is ", quote(name),
           R"(, not one of "", "marconi" of a hybrid model)");
    options.marconi_rules = !name.empty();
  }
  if (field(o, "alpha")) {
    if (options.method != HybridMethod::kMarconi)
      fail(Code::kInvalidArgument, "\"alpha\" is for policy marconi, not for ",
           kMethods[static_cast<size_t>(options.method)]);
    options.alpha = number_field(o, "alpha", 0, kMaxAlpha);
    options.tuned = false;
  }
  if (field(o, "pitfalls") && !options.marconi_rules)
    fail(Code::kInvalidArgument, R"("pitfalls" is for "compat": "marconi" only)");
  const HybridAdmission& admission = options.admission;
  if (field(o, "max_placed") && admission.placed == 0)
    fail(Code::kInvalidArgument, R"("max_placed" is for an "admission" with "placed")");
  if (options.marconi_rules &&
      (field(o, "max_states") || !admission.branch || !admission.end || admission.placed > 0))
    fail(Code::kInvalidArgument,
         R"(with "compat": "marconi" states are taken at "branch" and "end", )"
         R"(at "prompt" if it is given, and nowhere else)");
  const int64_t smallest = options.cost.state_bytes + options.cost.kv_bytes;
  if (options.capacity > 0 && options.capacity < smallest)
    fail(Code::kOutOfRange, "\"capacity\" is ", options.capacity,
         " bytes; one token with a state takes ", smallest);
  return options;
}

std::string hybrid_stats(const HybridSimulator& simulator) {
  const HybridStats s = simulator.stats();
  const auto number = [](double value) {
    std::array<char, 32> text;
    return std::string(text.data(), std::to_chars(text.begin(), text.end(), value).ptr);
  };
  JsonText j;
  j.field("nodes", s.nodes).field("states", s.states).field("tokens", s.tokens);
  j.field("bytes", s.bytes).field("peak_bytes", s.peak_bytes).field("evictions", s.evictions);
  j.field("refused", s.refused);
  j.key("flops_saved").raw(number(s.flops_saved));
  j.field("in_use", kMethods[static_cast<size_t>(s.method)]);
  j.key("alpha").raw(number(s.alpha));
  j.field("window", s.window);
  return std::move(j).take();
}

}  // namespace prefix::abi
