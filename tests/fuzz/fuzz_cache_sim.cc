// The simulation of the cache: a line of options, then operations, one JSON object a line, through
// the functions of prefix.h. With options of a hybrid model the lines are requests: a token a byte,
// the first half the prompt.
#include <prefix.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "target.h"

namespace prefix::fuzz {
namespace {

// Tokens that the cache may hold by its options, which were accepted; INT64_MAX: any number. What
// is held may make it larger where it does as SGLang does.
int64_t limit_of(std::string_view options) {
  if (options.empty()) return INT64_MAX;
  const Json o = parse_json(options, "options");
  const int64_t capacity = o.value("capacity", int64_t{0});
  return capacity == 0 || o.value("compat", "") != "" ? INT64_MAX : capacity;
}

// The result of the last operation; what every one of them says adds up.
Json result_of(const prefix_sim* sim, int64_t limit) {
  size_t needed = 0;
  KEEP(prefix_sim_result(sim, nullptr, 0, &needed, nullptr) == PREFIX_OK);
  std::string text(needed + 1, '\0');
  KEEP(prefix_sim_result(sim, text.data(), text.size(), &needed, nullptr) == PREFIX_OK);
  text.pop_back();
  Json result = parse_json(text, "the result");
  const auto of = [&](const char* key) { return result.at(key).get<int64_t>(); };
  KEEP(of("evictable") >= 0 && of("protected") >= 0);
  KEEP(of("total") == of("evictable") + of("protected"));
  KEEP(of("total") <= limit);
  return result;
}

// Every token that is there has a slot.
void check_dump(prefix_sim* sim, int64_t limit) {
  constexpr std::string_view kDump = R"({"op": "dump"})";
  KEEP(prefix_sim_apply(sim, kDump.data(), kDump.size(), nullptr) == PREFIX_OK);
  const Json result = result_of(sim, limit);
  int64_t slots = 0;
  for (const Json& node : result.at("nodes"))
    slots += static_cast<int64_t>(node.at("slots").size());
  KEEP(slots == result.at("total").get<int64_t>());
}

void run_requests(prefix_sim* sim, std::string_view options, Taker& take) {
  const auto capacity = parse_json(options, "options").value("capacity", int64_t{0});
  const bool ours = parse_json(options, "options").value("compat", "").empty();
  while (!take.empty()) {
    const std::string_view line = take.line();
    const std::vector<prefix_token> tokens(line.begin(), line.end());
    const size_t prompt = (tokens.size() + 1) / 2;
    int64_t reused = -1;
    const prefix_status status =
        prefix_sim_request(sim, nullptr, 0, tokens.data(), tokens.size(), prompt, &reused, nullptr);
    KEEP(status != PREFIX_ERR_INTERNAL && status != PREFIX_ERR_OUT_OF_MEMORY);
    KEEP(status != PREFIX_OK || (reused >= 0 && reused <= static_cast<int64_t>(prompt) - ours));
    constexpr std::string_view kStats = R"({"op": "stats"})";
    KEEP(prefix_sim_apply(sim, kStats.data(), kStats.size(), nullptr) == PREFIX_OK);
    const int64_t peak = result_of(sim, INT64_MAX).at("peak_bytes").get<int64_t>();
    KEEP(!ours || capacity == 0 || peak <= capacity);
  }
}

}  // namespace

void run_cache_sim(Input input) {
  Taker take(input);
  const std::string_view options = take.line();
  prefix_sim* sim = nullptr;
  const prefix_status created = prefix_sim_create(options.data(), options.size(), &sim, nullptr);
  KEEP(created != PREFIX_ERR_INTERNAL);
  if (created != PREFIX_OK) return;
  if (!options.empty() && parse_json(options, "options").contains("hybrid")) {
    run_requests(sim, options, take);
    return prefix_sim_release(sim);
  }
  const int64_t limit = limit_of(options);
  while (!take.empty()) {
    const std::string_view line = take.line();
    const prefix_status status = prefix_sim_apply(sim, line.data(), line.size(), nullptr);
    KEEP(status != PREFIX_ERR_INTERNAL && status != PREFIX_ERR_OUT_OF_MEMORY);
    if (status == PREFIX_OK) result_of(sim, limit);
  }
  check_dump(sim, limit);
  prefix_sim_release(sim);
}

}  // namespace prefix::fuzz
