#include "engine/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/decimal.h"
#include "base/json_text.h"
#include "base/processors.h"
#include "base/quote.h"
#include "base/status.h"
#include "engine/logit_bias.h"
#include "engine/options_json.h"
#include "engine/request.h"
#include "ops/devices.h"
#include "ops/logits.h"
#include "tree/policy.h"

namespace prefix {
namespace {

constexpr double kMax = 9e15;  // exact in a double
// Each is a request with its own copy of the prompt: of 128 Ki tokens they have half a GiB.
constexpr double kMaxSamples = 1024;

using T = OptionType;
using S = OptionScope;

constexpr OptionInfo kTable[] = {
    {"name", T::kString, S::kEngine, "", 0, 0, "",
     "What metrics call the model (label model_name); empty = the last part of its path."},
    {"device", T::kString, S::kEngine, "cpu", 0, 0, "cpu|cuda",
     "Where the model runs; cuda:1 is the second GPU."},
    {"dtype", T::kString, S::kEngine, "bf16", 0, 0, "bf16|f32",
     "Type of weights, keys and values; f32 is the slow reference."},
    {"compute", T::kString, S::kEngine, "auto", 0, 0, "auto|int8",
     "What the matrices of layers are multiplied in: auto = as dtype says; int8 = whole numbers, with "
     "half the weights of bf16 and 1.1 to 3 times the speed, as the processor is, at some loss "
     "(docs/quantisation.md). CPU only."},
    {"compute_keep", T::kString, S::kEngine, "", 0, 0, "",
     "Matrices that compute=int8 leaves as dtype says: a list of head (with the embedding), "
     "mixer_in, mixer_out, gate_up, down; empty = none."},
    {"weights", T::kString, S::kEngine, "auto", 0, 0, "auto|packed",
     "What quantised matrices (GGUF, AWQ, GPTQ, MXFP4) become in memory: auto = numbers of dtype; packed = "
     "they stay in blocks of whole numbers, in the bytes of the file, and are multiplied by activations of 8 bits "
     "(docs/quantised-weights.md). CPU only, not with compute=int8."},
    {"pack_to", T::kString, S::kEngine, "", 0, 0, "",
     "With compute=int8: a directory (of a .gguf file, a file) that is written while the model is "
     "loaded. It holds the matrices in whole numbers, so that later loads of it only read them; "
     "empty = none."},
    {"kv", T::kString, S::kEngine, "auto", 0, 0, "auto|int8",
     "Type of keys and values: auto = as dtype says; int8 = whole numbers with a scale for each "
     "token and head, in about half the memory of bf16, at some loss (docs/quantisation.md). CPU only."},
    {"isa", T::kString, S::kEngine, "auto", 0, 0, "auto|amx|avx512_bf16|avx512|avx2|neon|scalar",
     "Instruction-set level of the CPU kernels; auto takes the fastest this machine has."},
    {"invariant", T::kBool, S::kEngine, "false", 0, 0, "",
     "Same bits alone, in a batch and from the cache also on a GPU, at some cost; a CPU always "
     "does so."},
    {"cuda_attention", T::kString, S::kEngine, "auto", 0, 0, "auto|mma|hopper",
     "Attention kernels of a GPU: mma runs on all of them, hopper on compute capability 9.0 and not "
     "with invariant; auto takes hopper where it may."},
    {"cuda_graphs", T::kBool, S::kEngine, "true", 0, 0, "",
     "Replay steps that look like earlier ones as CUDA graphs; the same bits either way."},
    {"threads", T::kInt, S::kEngine, "0", 0, 1024, "",
     "Worker threads; 0 = one per processor that the process may use, or per processor of cpus."},
    {"cpus", T::kString, S::kEngine, "", 0, 0, "",
     "Processors that the worker threads stay on, as 0-3,8; empty = wherever the system puts "
     "them."},
    {"cache_bytes", T::kInt, S::kEngine, "0", 0, kMax, "",
     "Most bytes for keys and values, of running requests and of the cache; 0 = a quarter of the "
     "free memory, nine tenths of what is left on a GPU. Suffixes K, M, G."},
    {"cache", T::kBool, S::kEngine, "true", 0, 0, "",
     "Keep computed prefixes for later batches; false = free them when a request is done."},
    {"cache_policy", T::kString, S::kEngine, "auto", 0, 0,
     "auto|lru|lfu|fifo|mru|filo|slru|priority|gdsf|gds|marconi",
     "Which cached prefix goes first when memory is short; docs/cache-policies.md compares them. "
     "auto = lru; with recurrent layers what of lru, gds and gdsf has saved most lately."},
    {"cache_states", T::kString, S::kEngine, "ends", 0, 0, "ends|placed",
     "Where states of recurrent layers are kept: at ends of prompts and answers and where requests "
     "part; placed = also where later ones are likely to, judged by those before."},
    {"cache_path_states", T::kInt, S::kEngine, "4", 0, 1 << 20, "",
     "Most states of recurrent layers on a path; those nearest to its beginning go, but for forks "
     "and what was asked for. 0 = as many as memory holds."},
    {"cache_disk", T::kString, S::kEngine, "", 0, 0, "",
     "A folder in which computed pages are kept below memory, for this process and later ones; "
     "empty = none."},
    {"cache_disk_bytes", T::kInt, S::kEngine, "10G", 1 << 20, kMax, "",
     "Most bytes in that folder; the pages used longest ago go first. Suffixes K, M, G."},
    {"cache_store", T::kString, S::kEngine, "", 0, 0, "",
     "A server that keeps pages for several machines, as redis://host:port/0; empty = none."},
    {"cache_fetch_ms", T::kInt, S::kEngine, "1000", 0, 3600000, "",
     "Longest time of one fetch from disk and store; then its requests compute the pages."},
    {"cache_events", T::kInt, S::kEngine, "0", 0, 1 << 24, "",
     "How many of the last cache events are kept for those who read them; 0 = none are made."},
    {"cache_event_tokens", T::kInt, S::kEngine, "32", 32, 1 << 20, "",
     "Tokens of the blocks that cache events tell of; a multiple of 32."},
    {"require_salt", T::kBool, S::kEngine, "false", 0, 0, "",
     "Refuse requests whose namespace has no salt, so that nothing is shared by mistake."},
    {"attention", T::kString, S::kEngine, "auto", 0, 0, "auto|causal|bidirectional",
     "Whether tokens see those behind them; auto = as the model's files say. bidirectional embeds "
     "and classifies only, keeps whole texts, and takes texts of at most `rows` tokens."},
    {"sharing", T::kBool, S::kEngine, "true", 0, 0, "",
     "Compute and store shared prefixes once; false = every request on its own (to compare)."},
    {"rows", T::kInt, S::kEngine, "2048", 1, 65536, "",
     "Most tokens computed in one step; less answers sooner, more is a little faster. On a GPU "
     "4096 unless set."},
    {"queue_limit", T::kInt, S::kEngine, "1000000", 1, kMax, "",
     "Most unfinished requests; beyond it submit answers QUEUE_FULL."},
    {"max_positions", T::kInt, S::kEngine, "0", 0, 1 << 24, "",
     "Longest sequence in tokens; 0 = what the model was made for."},

    {"namespace", T::kString, S::kRequest, "", 0, 0, "",
     "Tenant or salt: nothing is shared across namespaces."},
    {"namespace_id", T::kInt, S::kRequest, "0", 0, 2147483647, "",
     "The same by number, from prefix_namespace_open or _open_tuple; not both."},
    {"adapter", T::kString, S::kRequest, "", 0, 0, "",
     "Name of an adapter that is loaded (prefix_adapter_load); empty = the model alone."},
    {"deadline_ms", T::kInt, S::kRequest, "0", 0, kMax, "",
     "Time from submission after which the request ends with DEADLINE; 0 = none."},
    {"priority", T::kInt, S::kRequest, "0", -1000000, 1000000, "", "Higher runs first."},
    {"cache_priority", T::kInt, S::kRequest, "0", -32768, 32767, "",
     "Of what the request leaves in the cache; with cache_policy = priority the lowest goes "
     "first."},
    {"cache_ttl_ms", T::kInt, S::kRequest, "0", 0, kMax, "",
     "How long what the request leaves in the cache stays unless it is used again; 0 = no limit."},
    {"checkpoint", T::kIntList, S::kRequest, "", 1, 2147483647, "",
     "Positions of the prompt, ascending, as 100,250: with recurrent layers a state is kept after so "
     "many tokens, and later requests go on there."},
    {"max_tokens", T::kInt, S::kGenerate, "16", 1, 1 << 24, "", "Most tokens to generate."},
    {"temperature", T::kFloat, S::kGenerate, "0", 0, 1000, "", "0 = greedy."},
    {"top_k", T::kInt, S::kGenerate, "0", 0, 1 << 24, "", "Draw from the k likeliest; 0 = all."},
    {"top_p", T::kFloat, S::kGenerate, "1", 1e-9, 1, "",
     "Draw from the likeliest tokens that make up this probability."},
    {"min_p", T::kFloat, S::kGenerate, "0", 0, 1, "",
     "Drop tokens below this share of the likeliest one's probability."},
    {"repetition_penalty", T::kFloat, S::kGenerate, "1", 1e-3, 1000, "",
     "Divides the logits of tokens that occurred; 1 = off."},
    {"presence_penalty", T::kFloat, S::kGenerate, "0", -2, 2, "",
     "Taken off the logits of tokens that were generated, however often."},
    {"frequency_penalty", T::kFloat, S::kGenerate, "0", -2, 2, "",
     "Taken off the logits of tokens for each time that they were generated."},
    {"logit_bias", T::kString, S::kGenerate, "", 0, 0, "",
     "Added to the logits of tokens, each in [-100, 100], as 464:-100,11:2.5; empty = none. It "
     "makes tokens likelier or less likely and forbids none."},
    {"allowed_tokens", T::kIntList, S::kGenerate, "", 0, 2147483647, "",
     "Token ids that alone may be generated, each once, as 1,2,3; empty = all."},
    {"min_tokens", T::kInt, S::kGenerate, "0", 0, 1 << 24, "",
     "Tokens before which no end token and none of stop_tokens may be generated; at most max_tokens."},
    {"seed", T::kInt, S::kGenerate, "-1", -1, kMax, "",
     "Same seed, same draw; -1 = a new one for each request, which its result tells."},
    {"ignore_eos", T::kBool, S::kGenerate, "false", 0, 0, "",
     "Go on after the model's end-of-sequence token."},
    {"stop_tokens", T::kIntList, S::kGenerate, "", 0, 2147483647, "",
     "Further token ids that end generation, as 1,2,3."},
    {"logprobs", T::kBool, S::kGenerate, "false", 0, 0, "",
     "Keep the log-probability of each generated token."},
    {"top_logprobs", T::kInt, S::kGenerate, "0", 0, ops::kMaxCandidates, "",
     "Keep so many of the likeliest tokens and their log-probabilities for each generated token, "
     "and for each scored one of a request for log-probabilities."},
    {"draft_tokens", T::kInt, S::kGenerate, "0", 0, kMaxDraftTokens, "",
     "Guess up to so many tokens, from what the cache has behind the same prompt and from what came "
     "behind the same tokens before, and check them in one step; 0 = none. Tokens stay the same; "
     "answers that repeat their prompt or an earlier answer come in fewer steps."},
    {"pooling", T::kString, S::kEmbedding, "last", 0, 0, "last|mean|first|tokens",
     "Which final hidden states make the vector: of the last token, the mean of all, of the first; "
     "tokens = a vector of each, not of tasks."},
    {"positions", T::kIntList, S::kEmbedding, "", 0, 2147483647, "",
     "With pooling = tokens only the vectors at these positions, ascending; empty = all. Not of "
     "tasks."},
    {"dimensions", T::kInt, S::kEmbedding, "0", 0, 1 << 24, "",
     "Keep the first n values; 0 = all."},
    {"normalize", T::kBool, S::kEmbedding, "true", 0, 0, "", "Scale to length 1 after the cut."},
    {"head", T::kBool, S::kEmbedding, "false", 0, 0, "",
     "The logits of the model's classification head instead, one for each label. Not of tasks."},
    {"dense", T::kBool, S::kEmbedding, "true", 0, 0, "",
     "Send the vector through the Dense layers of the model's files, before dimensions and "
     "normalize. They are left out when this is false, with head, and with pooling = tokens unless "
     "they are made for single tokens."},

    {"recipe", T::kString, S::kTask, "auto", 0, 0, "",
     "How texts become prompts: a shipped recipe, or a file's path (with a \"/\" or ending in "
     ".json); auto = what the model's files call for."},
    {"instruction", T::kString, S::kTask, "", 0, 0, "",
     "In place of the recipe's own; unset = that one."},
    {"truncate", T::kString, S::kTask, "right", 0, 0, "right|left|off",
     "Cut the end or the front of what the recipe lets be cut when a prompt is too long; off = the "
     "item fails."},
    {"max_prompt_tokens", T::kInt, S::kTask, "0", 0, 1 << 30, "",
     "Longest prompt; 0 = the recipe's limit, or the model's if smaller."},
    {"chunk_tokens", T::kInt, S::kTask, "65536", 1, 1 << 30, "",
     "Most distinct tokens of a task that are in work at once."},
    {"raw", T::kBool, S::kTask, "false", 0, 0, "",
     "rerank: a difference of logits or a sum of log-probabilities, not the score; classify: "
     "log-probabilities, or the logits of a head."},
    {"top_n", T::kInt, S::kTask, "0", 0, 1 << 30, "",
     "rerank, classify: most places of a ranking; 0 = all."},
    {"prompt", T::kString, S::kTask, "", 0, 0, "",
     "embed: which of the recipe's prompts; empty = \"document\" where there are several."},
    {"stream", T::kBool, S::kTask, "false", 0, 0, "",
     "answer, generate, chat: TEXT events while the texts are written."},
    {"stop", T::kStringList, S::kTask, "[]", 0, 0, "",
     "answer, generate, chat: texts before which an answer ends, besides the recipe's own; none may be "
     "empty."},
    {"samples", T::kInt, S::kTask, "1", 1, kMaxSamples, "",
     "answer, generate, chat: so many texts of each item, side by side, for one prompt's work. Where "
     "seed is set, text k draws with seed + k, otherwise each with a new one; with temperature 0 they "
     "are all the same."},
    {"json_schema", T::kString, S::kTask, "", 0, 0, "",
     "answer, generate, chat: a text is JSON of this schema, which is JSON itself; empty = none. At "
     "most one of this, regex and grammar."},
    {"regex", T::kString, S::kTask, "", 0, 0, "",
     "answer, generate, chat: a text matches this regular expression as a whole; empty = none."},
    {"grammar", T::kString, S::kTask, "", 0, 0, "",
     "answer, generate, chat: a text is of this grammar, in the syntax of llguidance, which is like "
     "Lark's; empty = none."},
};

// Items of lists are ids and positions, which have 32 bits.
static_assert(std::all_of(std::begin(kTable), std::end(kTable), [](const OptionInfo& o) {
  return o.type != T::kIntList || (o.minimum >= INT32_MIN && o.maximum <= INT32_MAX);
}));

// Of the option cache_policy: the policies there are, and the one that chooses.
constexpr bool names_all_policies(std::string_view values) {
  if (!values.starts_with("auto")) return false;
  values.remove_prefix(4);
  for (const std::string_view name : kPolicyNames) {
    if (!values.starts_with('|') || !values.substr(1).starts_with(name)) return false;
    values.remove_prefix(1 + name.size());
  }
  return values.empty();
}
static_assert(std::any_of(std::begin(kTable), std::end(kTable), [](const OptionInfo& o) {
  return o.key == "cache_policy" && names_all_policies(o.values);
}));

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

// An option half of whose letters are those of `key`, or more; null: there is none.
const OptionInfo* nearest(std::string_view key) {
  constexpr size_t kLongest = 64;  // no option has so many letters
  if (key.size() > kLongest) return nullptr;
  const OptionInfo* best = nullptr;
  size_t least = kLongest;
  for (const OptionInfo& o : kTable) {
    const size_t distance = edit_distance(key, o.key);
    if (distance > o.key.size() / 2 || distance >= least) continue;
    least = distance;
    best = &o;
  }
  return best;
}

const OptionInfo& find(std::string_view key) {
  for (const OptionInfo& o : kTable)
    if (o.key == key) return o;
  if (const OptionInfo* const near = nearest(key))
    fail(Code::kUnknownOption, "unknown option ", quote(key), "; did you mean \"", near->key,
         "\"?");
  fail(Code::kUnknownOption, "unknown option ", quote(key),
       "; docs/options.md lists those that there are");
}

[[noreturn]] void refuse(const OptionInfo& o, std::string_view value, std::string_view why) {
  fail(Code::kInvalidArgument, "option ", o.key, " = ", quote(value), ": ", why);
}

// Whole numbers to the digit: 1.67772e+07 is not the limit.
std::string limit_text(const OptionInfo& o, double limit) {
  return o.type == T::kFloat ? cat(limit) : std::to_string(static_cast<int64_t>(limit));
}

[[noreturn]] void refuse_range(const OptionInfo& o, std::string_view text) {
  fail(Code::kOutOfRange, "option ", o.key, " = ", quote(text), " is outside [",
       limit_text(o, o.minimum), ", ", limit_text(o, o.maximum), "]");
}

void check_range(const OptionInfo& o, double value, std::string_view text) {
  if (!(value >= o.minimum && value <= o.maximum)) refuse_range(o, text);
}

int64_t parse_int(const OptionInfo& o, std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  int64_t factor = 1;
  if (error == std::errc() && end - stop == 1) {
    switch (*stop) {
      case 'K':
      case 'k':
        factor = int64_t{1} << 10;
        break;
      case 'M':
      case 'm':
        factor = int64_t{1} << 20;
        break;
      case 'G':
      case 'g':
        factor = int64_t{1} << 30;
        break;
      default:
        refuse(o, text, "not a whole number");
    }
  } else if (error == std::errc::result_out_of_range) {
    refuse_range(o, text);
  } else if (error != std::errc() || stop != end) {
    refuse(o, text, "not a whole number");
  }
  check_range(o, static_cast<double>(value) * static_cast<double>(factor), text);
  return value * factor;
}

double parse_float(const OptionInfo& o, std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || stop != text.data() + text.size() ||
      std::isnan(value))
    refuse(o, text, "not a number");
  if (error == std::errc::result_out_of_range && is_below_doubles(text))
    fail(Code::kOutOfRange, "option ", o.key, " = ", quote(text), " ", kBelowDoubles,
         "; it must be in [", limit_text(o, o.minimum), ", ", limit_text(o, o.maximum), "]");
  if (error == std::errc::result_out_of_range) refuse_range(o, text);
  check_range(o, value, text);
  return value;
}

bool parse_bool(const OptionInfo& o, std::string_view text) {
  if (text == "true" || text == "1" || text == "on") return true;
  if (text == "false" || text == "0" || text == "off") return false;
  refuse(o, text, "it must be true or false");
}

std::vector<int32_t> parse_ints(const OptionInfo& o, std::string_view text) {
  std::vector<int32_t> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = text.find(',', at);
    const std::string_view item = text.substr(at, comma - at);
    if (item.find_first_not_of("-0123456789") != std::string_view::npos || comma == text.size() - 1)
      refuse(o, text, "it must be whole numbers, as 1,2,3");
    numbers.push_back(static_cast<int32_t>(parse_int(o, item)));
    at = comma == std::string_view::npos ? text.size() : comma + 1;
  }
  return numbers;
}

// Of stop, which alone is a list of texts: an empty one would end every answer before its first
// character.
void check_texts(const OptionInfo& o, std::string_view text) {
  const std::optional<std::vector<std::string>> texts = text_list(text);
  if (!texts) refuse(o, text, "it must be a JSON array of texts");
  const auto empty = std::ranges::find(*texts, "");
  if (empty != texts->end())
    fail(Code::kInvalidArgument, "option ", o.key, "[", empty - texts->begin(),
         "] is empty; a stop text has at least 1 byte");
}

void check_value(const OptionInfo& o, std::string_view text) {
  switch (o.type) {
    case T::kInt:
      parse_int(o, text);
      break;
    case T::kFloat:
      parse_float(o, text);
      break;
    case T::kBool:
      parse_bool(o, text);
      break;
    case T::kString: {
      if (o.key == "cpus") parse_processors(text, "option cpus");
      if (o.key == "logit_bias") parse_logit_bias(text);
      if (o.key == "device") {
        if (ops::is_device_name(text)) break;
        refuse(o, text, cat("it must be cpu, cuda, or cuda:0 to cuda:", ops::kMaxDevices - 1));
      }
      if (o.values.empty()) break;
      const std::string list = "|" + std::string(o.values) + "|";
      if (text.empty() || text.find('|') != std::string_view::npos ||
          list.find("|" + std::string(text) + "|") == std::string::npos)
        refuse(o, text, cat("it must be one of ", o.values));
      break;
    }
    case T::kIntList:
      parse_ints(o, text);
      break;
    case T::kStringList:
      check_texts(o, text);
      break;
  }
}

std::string float_text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
}

std::string_view why_no_list(const OptionInfo& o) {
  return o.type == T::kStringList ? "it takes texts, not numbers"
         : o.type == T::kIntList  ? "it takes whole numbers, not texts"
                                  : "it takes one value, not a list";
}

// What is no text would be a text of its own: a tenant "7".
void check_type(const OptionInfo& o, OptionType given, std::string_view text) {
  if (given == T::kIntList || given == T::kStringList) {
    if (o.type != given) refuse(o, text, why_no_list(o));
  } else if (o.type == T::kString && given != T::kString) {
    refuse(o, text, "it must be a text");
  }
}

// A value of JSON as Options::set takes it.
std::string as_text(const OptionInfo& o, const JsonSetting& setting) {
  using List = JsonSetting::List;
  if (setting.list == List::kNone) {
    if (o.type == T::kString && !setting.is_text) refuse(o, setting.value, "it must be a text");
    if (o.type != T::kStringList) return setting.value;
    if (!setting.is_text) refuse(o, setting.value, "it must be a text or a list of texts");
    return JsonText().open('[').value(setting.value).close(']').text();
  }
  if (o.type == T::kStringList && setting.list != List::kInts)
    return setting.list == List::kEmpty ? "[]" : setting.value;
  if (o.type == T::kIntList && setting.list != List::kTexts) return setting.value;
  refuse(o, "[...]", why_no_list(o));
}

}  // namespace

std::span<const OptionInfo> option_table() { return kTable; }

void Options::set(std::string_view key, std::string_view value, OptionType given) {
  const OptionInfo& o = find(key);
  check_type(o, given, value);
  check_value(o, value);
  values_[std::string(o.key)] = std::string(value);
}

void Options::set_json(std::string_view text) {
  Options copy = *this;
  for (const JsonSetting& setting : parse_options_json(text)) {
    copy.set(setting.key, as_text(find(setting.key), setting));
  }
  values_ = std::move(copy.values_);
}

std::string Options::to_json() const {
  JsonText json;
  json.open('{');
  for (const auto& [key, value] : values_) {
    const OptionInfo& o = find(key);
    json.key(key);
    switch (o.type) {
      case T::kInt:
        json.value(parse_int(o, value));
        break;
      case T::kFloat:
        json.raw(float_text(parse_float(o, value)));
        break;
      case T::kBool:
        json.value(parse_bool(o, value));
        break;
      case T::kString:
        json.value(std::string_view(value));
        break;
      case T::kIntList:
        json.open('[');
        for (const int32_t number : parse_ints(o, value)) json.value(number);
        json.close(']');
        break;
      case T::kStringList:
        json.raw(value);
        break;
    }
  }
  return json.close('}').text();
}

std::string Options::get(std::string_view key) const {
  const OptionInfo& o = find(key);
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : std::string(o.default_value);
}

int64_t Options::get_int(std::string_view key) const { return parse_int(find(key), get(key)); }
double Options::get_float(std::string_view key) const { return parse_float(find(key), get(key)); }
bool Options::get_bool(std::string_view key) const { return parse_bool(find(key), get(key)); }
std::vector<int32_t> Options::get_ints(std::string_view key) const {
  return parse_ints(find(key), get(key));
}
bool Options::is_set(std::string_view key) const { return values_.count(std::string(key)) != 0; }

void Options::require_scopes(std::initializer_list<OptionScope> scopes, std::string_view what,
                             std::string_view also) const {
  if (pool_ && std::find(scopes.begin(), scopes.end(), S::kEngine) == scopes.end())
    fail(Code::kInvalidArgument, "a pool is for engines; ", what, " does not take it");
  for (const auto& [key, value] : values_) {
    const OptionInfo& o = find(key);
    if (std::find(scopes.begin(), scopes.end(), o.scope) != scopes.end() || key == also) continue;
    constexpr std::string_view kTakers[] = {"engines", "requests", "generation", "embeddings",
                                            "tasks"};
    fail(Code::kInvalidArgument, "option ", key, " is for ", kTakers[static_cast<size_t>(o.scope)],
         "; ", what, " does not take it");
  }
}

}  // namespace prefix
