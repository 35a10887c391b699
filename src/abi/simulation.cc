// The simulation of the cache: operations come in as JSON, results go out as one line of JSON. What
// is read here is all that is checked: the simulator below takes numbers within their limits.
#include <array>
#include <optional>
#include <span>

#include "abi/entry.h"
#include "abi/simulation_hybrid.h"
#include "abi/simulation_json.h"
#include "base/json_text.h"
#include "base/quote.h"
#include "tree/simulator.h"

namespace prefix::abi {
namespace {

constexpr int64_t kMaxPage = 65536;
constexpr int64_t kMaxNumber = INT64_MAX;
constexpr int64_t kMaxToken = INT32_MAX;

// What an operation gave. Its text is written when it is asked for, not as part of the operation:
// one that changed the tree must not fail for lack of memory for its answer.
struct Answer {
  explicit Answer(const Simulator& s)
      : evictable(s.evictable()), held(s.protected_()), total(s.total()), tick(s.tick()) {}
  explicit Answer(const HybridStats& s)
      : evictable(s.tokens), held(0), total(s.tokens), tick(s.lookups) {}

  bool has_matched = false;
  bool has_slots = false;
  bool has_freed = false;
  SimulatorResult result;
  std::string more;  // fields of operations that change nothing, without brackets
  int64_t evictable, held, total, tick;
};

// One user at a time: a call while `mutex` is held is answered with MISUSE. It simulates the cache
// of a model without recurrent layers or of a hybrid one.
struct SimulationObject {
  explicit SimulationObject(const SimulatorOptions& o)
      : options(o), simulator(std::make_unique<Simulator>(o)), answer(*simulator) {}
  explicit SimulationObject(const HybridOptions& o)
      : hybrid(std::make_unique<HybridSimulator>(o)),
        max_tokens(o.cost.max_tokens()),
        answer(hybrid->stats()) {}

  std::mutex mutex;
  const SimulatorOptions options;
  const std::unique_ptr<Simulator> simulator;     // this
  const std::unique_ptr<HybridSimulator> hybrid;  // or this
  const int64_t max_tokens = INT64_MAX;
  bool broken = false;
  Answer answer;     // of the last operation that succeeded
  std::string text;  // empty until it is asked for
};

// The object with its lock held.
struct Use {
  explicit Use(const prefix_sim* handle)
      : object(find<SimulationObject>(Kind::kSim, handle, "the simulation")),
        lock(object->mutex, std::try_to_lock) {
    if (!lock) fail(Code::kMisuse, "the simulation is used by another thread at this moment");
  }
  SimulationObject* operator->() const { return object.get(); }

  std::shared_ptr<SimulationObject> object;
  std::unique_lock<std::mutex> lock;
};

SimulatorOptions options_in(const Json& o) {
  SimulatorOptions options;
  constexpr std::array<std::string_view, 6> kKeys = {"policy", "page",   "capacity",
                                                     "bigram", "compat", "hybrid"};
  only_keys(o, "options", kKeys);
  if (const Json* const policy = field(o, "policy")) {
    const std::string_view name = text_of(*policy, "policy");
    const std::optional<Policy> known = policy_of(name);
    if (!known || *known == Policy::kMarconi) {  // which is about states
      std::string names;
      for (const std::string_view n : kPolicyNames)
        if (n != policy_name(Policy::kMarconi)) names += cat(names.empty() ? "" : ", ", n);
      fail(Code::kInvalidArgument, "\"policy\" is ", quote(name), ", not one of ", names);
    }
    options.policy = *known;
  }
  options.page = static_cast<int32_t>(integer_field(o, "page", 1, kMaxPage, 1));
  options.capacity = integer_field(o, "capacity", 0, kMaxNumber, 0);
  options.bigram = bool_field(o, "bigram");
  if (const Json* const compat = field(o, "compat")) {
    const std::string_view name = text_of(*compat, "compat");
    if (!name.empty() && name != "sglang")
      fail(Code::kInvalidArgument, "\"compat\" is ", quote(name), R"(, not one of "", "sglang")");
    options.compat = !name.empty();
  }
  return options;
}

std::string answer_text(const Answer& a) {
  JsonText j;
  j.open('{');
  if (a.has_matched) j.field("matched", a.result.matched);
  if (a.has_slots) j.list("slots", a.result.slots);
  if (a.has_freed) j.list("freed", a.result.freed);
  if (!a.more.empty()) j.raw(a.more);
  j.field("evictable", a.evictable).field("protected", a.held);
  return j.field("total", a.total).field("tick", a.tick).close('}').text();
}

void write_dump(JsonText& j, const Simulator& s) {
  j.key("nodes").open('[');
  for (const SimulatorNode& n : s.dump()) {
    j.open('{').list("path", n.path).field("namespace", std::string_view(n.name_space));
    j.list("slots", n.slots).field("lock", n.locks).field("hits", n.hits);
    j.field("priority", n.priority).field("last_use", n.last_use).field("created", n.created);
    j.close('}');
  }
  j.close(']');
}

// The tokens of an operation with their namespace, and what else an insertion takes.
struct Insertion {
  std::string_view name_space;
  std::vector<int32_t> tokens;
  int32_t priority = 0;
  std::vector<int64_t> slots;
};

// Lives no longer than `operation`.
Insertion tokens_in(const Json& operation, std::string_view name, bool inserts) {
  constexpr std::array<std::string_view, 5> kKeys = {"op", "tokens", "ns", "priority", "slots"};
  only_keys(operation, name, std::span(kKeys).first(inserts ? kKeys.size() : 3));
  Insertion in;
  in.tokens = integers<int32_t>(needed_field(operation, "tokens", name), "tokens", kMaxToken);
  if (const Json* const ns = field(operation, "ns")) in.name_space = text_of(*ns, "ns");
  in.priority = static_cast<int32_t>(integer_field(operation, "priority", INT16_MIN, INT16_MAX, 0));
  return in;
}

// A caller may name a slot for each token: those after the last whole page are of no use.
void slots_in(const Json& operation, const SimulatorOptions& options, Insertion& in) {
  const Json* const list = field(operation, "slots");
  if (!list) return;
  in.slots = integers<int64_t>(*list, "slots", kMaxNumber);
  const size_t tokens = in.tokens.size();
  const size_t atoms = options.bigram && tokens > 0 ? tokens - 1 : tokens;
  const size_t whole = atoms - atoms % static_cast<size_t>(options.page);
  if (in.slots.size() < whole || in.slots.size() > tokens)
    fail(Code::kInvalidArgument, "\"slots\" has ", in.slots.size(), " values, not ", whole, " to ",
         tokens, " as the ", tokens, " tokens need");
  in.slots.resize(whole);
}

Answer apply(Simulator& s, const SimulatorOptions& options, const Json& operation) {
  const std::string_view name = text_of(needed_field(operation, "op", "the operation"), "op");
  SimulatorResult result;
  JsonText more;
  if (name == "match" || name == "lock" || name == "unlock") {
    const Insertion in = tokens_in(operation, name, false);
    result = name == "match"  ? s.match(in.name_space, in.tokens)
             : name == "lock" ? s.lock(in.name_space, in.tokens)
                              : s.unlock(in.name_space, in.tokens);
  } else if (name == "insert") {
    Insertion in = tokens_in(operation, name, true);
    slots_in(operation, options, in);
    result = s.insert(in.name_space, in.tokens, in.priority, in.slots);
  } else if (name == "evict") {
    constexpr std::array<std::string_view, 2> kKeys = {"op", "n"};
    only_keys(operation, name, kKeys);
    const int64_t n = integer(needed_field(operation, "n", name), "\"n\"", 0, kMaxNumber);
    result = s.evict(n);
  } else if (name == "reset" || name == "dump" || name == "stats") {
    constexpr std::array<std::string_view, 1> kKeys = {"op"};
    only_keys(operation, name, kKeys);
    if (name == "reset") s.reset();
    if (name == "dump") write_dump(more, s);
    if (name == "stats") more.field("nodes", s.nodes()).field("evictions", s.evictions());
  } else {
    fail(Code::kInvalidArgument, "\"op\" is ", quote(name),
         ", not one of match, insert, lock, unlock, evict, reset, dump, stats");
  }
  Answer answer(s);
  answer.has_matched = name == "match" || name == "lock" || name == "unlock" || name == "insert";
  answer.has_slots = answer.has_matched && name != "insert";
  answer.has_freed = name == "insert" || name == "evict";
  answer.result = std::move(result);
  answer.more = std::move(more).take();
  return answer;
}

Answer apply(const HybridSimulator& s, const Json& operation) {
  const std::string_view name = text_of(needed_field(operation, "op", "the operation"), "op");
  if (name != "stats")
    fail(Code::kInvalidArgument, "\"op\" is ", quote(name),
         ", not stats: the cache of a hybrid model takes whole requests");
  constexpr std::array<std::string_view, 1> kKeys = {"op"};
  only_keys(operation, name, kKeys);
  Answer answer(s.stats());
  answer.more = hybrid_stats(s);
  return answer;
}

// A hybrid simulation that runs out of memory within a request is not used again: its trees may
// differ from each other.
int64_t request(SimulationObject& object, std::string_view name_space,
                std::span<const int32_t> tokens, int64_t prompt) {
  if (object.broken)
    fail(Code::kOutOfMemory, "a request before this one ran out of memory; create it anew");
  object.broken = true;
  const int64_t reused = object.hybrid->request(name_space, tokens, prompt);
  object.broken = false;
  return reused;
}

std::shared_ptr<SimulationObject> simulation_of(const char* options, size_t length) {
  if (!options) return std::make_shared<SimulationObject>(SimulatorOptions{});
  const JsonDocument document(json_in(text_in(options, length, "options"), "options"));
  const Json& o = document.tree();
  require_object(o, "options");
  if (field(o, "hybrid")) return std::make_shared<SimulationObject>(hybrid_options_in(o));
  return std::make_shared<SimulationObject>(options_in(o));
}

}  // namespace
}  // namespace prefix::abi

using prefix::Code;
using prefix::fail;
using prefix::abi::guard;
using prefix::abi::SimulationObject;
using prefix::abi::text_in;
using prefix::abi::Use;

extern "C" {

prefix_status prefix_sim_create(const char* options, size_t length, prefix_sim** out,
                                prefix_error* err) {
  return guard("prefix_sim_create", err, [&] {
    prefix::abi::require(out, "out");
    const std::shared_ptr<SimulationObject> object = prefix::abi::simulation_of(options, length);
    *out = static_cast<prefix_sim*>(
        prefix::abi::HandleTable::get().add(prefix::abi::Kind::kSim, object));
  });
}

prefix_status prefix_sim_apply(prefix_sim* sim, const char* operation, size_t length,
                               prefix_error* err) {
  return guard("prefix_sim_apply", err, [&] {
    const Use use(sim);
    prefix::abi::require(operation, "operation");
    const prefix::JsonDocument document(
        prefix::abi::json_in(text_in(operation, length, "the operation"), "the operation"));
    prefix::abi::require_object(document.tree(), "the operation");
    use->answer = use->hybrid ? prefix::abi::apply(*use->hybrid, document.tree())
                              : prefix::abi::apply(*use->simulator, use->options, document.tree());
    use->text.clear();
  });
}

prefix_status prefix_sim_result(const prefix_sim* sim, char* buf, size_t cap, size_t* needed,
                                prefix_error* err) {
  return guard("prefix_sim_result", err, [&] {
    const Use use(sim);
    if (use->text.empty()) use->text = prefix::abi::answer_text(use->answer);
    prefix::abi::text_out(use->text, buf, cap, needed);
  });
}

prefix_status prefix_sim_request(prefix_sim* sim, const char* name, size_t name_length,
                                 const prefix_token* tokens, size_t n_tokens, size_t n_prompt,
                                 int64_t* reused, prefix_error* err) {
  return guard("prefix_sim_request", err, [&] {
    const Use use(sim);
    const std::string_view name_space = text_in(name, name_length, "name");
    const std::vector<prefix_token> copy = prefix::abi::array_in(tokens, n_tokens, "tokens");
    if (n_prompt < 1 || n_prompt > n_tokens)
      fail(Code::kOutOfRange, "n_prompt is ", n_prompt, ", outside [1, ", n_tokens, "]");
    for (size_t i = 0; i < copy.size(); ++i)
      if (copy[i] < 0)
        fail(Code::kOutOfRange, "token ", i, " is ", copy[i], ", outside [0, ", INT32_MAX, "]");
    if (static_cast<int64_t>(n_tokens) > use->max_tokens)
      fail(Code::kOutOfRange, "n_tokens is ", n_tokens, "; the operations of more than ",
           use->max_tokens, " tokens of this model cannot be counted");
    const auto prompt = static_cast<int64_t>(n_prompt);
    const int64_t found = use->hybrid ? prefix::abi::request(*use.object, name_space, copy, prompt)
                                      : use->simulator->request(name_space, copy, prompt);
    if (reused) *reused = found;
  });
}

prefix_status prefix_sim_retain(prefix_sim* sim, prefix_error* err) {
  return guard("prefix_sim_retain", err, [&] {
    prefix::abi::HandleTable::get().retain(prefix::abi::Kind::kSim, sim, "the simulation");
  });
}

void prefix_sim_release(prefix_sim* sim) {
  guard("prefix_sim_release", nullptr,
        [&] { prefix::abi::HandleTable::get().release(prefix::abi::Kind::kSim, sim); });
}

}  // extern "C"
