#include "cache_trace.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common.h"
#include "files.h"
#include "json_in.h"
#include "json_stream.h"

namespace prefix_cli {
namespace {

constexpr uint64_t kVocabulary = 32000;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// splitmix64, a public-domain generator by Sebastiano Vigna.
uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Takes the line from the parser's events, without a tree of values: a line may hold 30,000 tokens
// and a file 200 MB. Depth 1 is the object, 2 a list of its, 3 a run in that list.
class TraceLine final : public nlohmann::json::json_sax_t {
 public:
  explicit TraceLine(size_t max_tokens) : max_tokens_(max_tokens) {}
  std::string problem;

  bool key(std::string& name) override {
    static const char* const kNames[] = {"session_id",   "turn_id",      "ts",
                                         "namespace",    "input_runs",   "output_runs",
                                         "input_tokens", "output_tokens"};
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) return stop(cat("unknown field ", shown(name, 80)));
    const auto field = static_cast<unsigned>(found - std::begin(kNames));
    if (seen_ & 1u << field) return stop(cat("\"", name, "\" occurs twice"));
    seen_ |= 1u << field;
    field_ = static_cast<Field>(field);
    name_ = *found;
    return true;
  }

  bool number_integer(int64_t value) override {
    if (depth_ == 1 && field_ == Field::kTs) return true;
    return wrong(cat(value));  // the parser gives numbers below 0 only
  }

  bool number_unsigned(uint64_t value) override {
    if (depth_ == 2 && is_tokens()) {
      if (value > uint64_t{std::numeric_limits<int32_t>::max()}) return wrong(cat(value));
      return add(static_cast<int32_t>(value));
    }
    if (depth_ == 3) {
      if (run_size_ < 2) run_[run_size_] = value;
      ++run_size_;
      return true;
    }
    if (depth_ != 1 || value > uint64_t{kLargest}) return wrong(cat(value));
    if (field_ == Field::kSession) session_ = static_cast<int64_t>(value);
    if (field_ == Field::kTurn) turn_ = static_cast<int64_t>(value);
    return field_ <= Field::kTs || wrong(cat(value));
  }

  bool number_float(double, const std::string& text) override {
    return (depth_ == 1 && field_ == Field::kTs) || wrong(shown(text, 40));
  }

  bool string(std::string& value) override {
    if (depth_ != 1 || field_ != Field::kNamespace) return wrong("a string");
    namespace_ = value;
    return true;
  }

  bool start_object(size_t) override { return depth_++ == 0 || wrong("an object"); }
  bool end_object() override { return true; }

  bool start_array(size_t) override {
    ++depth_;
    run_size_ = 0;
    const bool fits = depth_ == 2 ? field_ >= Field::kInputRuns : depth_ == 3 && is_runs();
    return fits || wrong("a list");
  }

  bool end_array() override {
    if (depth_-- < 3) return true;
    if (run_size_ != 2) return wrong(cat("a run of ", run_size_, " numbers"));
    if (run_[1] > max_tokens_) return too_long();
    uint64_t state = run_[0];
    for (uint64_t i = 0; i < run_[1]; ++i)
      if (!add(static_cast<int32_t>(next_random(state) % kVocabulary))) return false;
    return true;
  }

  bool null() override { return wrong("null"); }
  bool boolean(bool value) override { return wrong(value ? "true" : "false"); }
  bool binary(nlohmann::json::binary_t&) override { return wrong("binary"); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return stop(cat("not JSON at byte ", wrong_byte(position), " of the value"));
  }

  // After the parser: what must be there is there.
  void finish(TraceRequest& request) {
    const auto has = [&](Field field) { return (seen_ >> static_cast<unsigned>(field) & 1u) != 0; };
    const auto need_one = [&](Field runs, Field tokens, const char* what) {
      if (has(runs) == has(tokens))
        fail(has(runs) ? "both" : "neither", " of \"", what, "_tokens\" and \"", what, "_runs\"",
             has(runs) ? "" : " is there");
    };
    if (!has(Field::kSession)) fail("\"session_id\" is missing");
    if (!has(Field::kTurn)) fail("\"turn_id\" is missing");
    need_one(Field::kInputRuns, Field::kInputTokens, "input");
    need_one(Field::kOutputRuns, Field::kOutputTokens, "output");
    if (input_.empty()) fail("the prompt has no tokens");
    request.session = session_;
    request.turn = turn_;
    request.name_space = std::move(namespace_);
    request.prompt = input_.size();
    request.tokens = std::move(input_);
    request.tokens.insert(request.tokens.end(), output_.begin(), output_.end());
  }

 private:
  enum class Field : unsigned {
    kSession,
    kTurn,
    kTs,
    kNamespace,
    kInputRuns,
    kOutputRuns,
    kInputTokens,
    kOutputTokens
  };

  bool is_tokens() const { return field_ >= Field::kInputTokens; }
  bool is_runs() const { return field_ == Field::kInputRuns || field_ == Field::kOutputRuns; }

  bool add(int32_t token) {
    const bool input = field_ == Field::kInputTokens || field_ == Field::kInputRuns;
    (input ? input_ : output_).push_back(token);
    return input_.size() + output_.size() <= max_tokens_ || too_long();
  }

  bool too_long() {
    return stop(cat("the request has more than ", max_tokens_, " tokens, the limit"));
  }

  bool wrong(const std::string& what) {
    if (depth_ == 0 || name_ == nullptr) return stop(cat(what, " where an object belongs"));
    const char* const wanted = field_ <= Field::kTurn        ? "an integer of at least 0"
                               : field_ == Field::kTs        ? "a number"
                               : field_ == Field::kNamespace ? "a string"
                               : is_tokens()
                                   ? "a list of token ids in [0, 2147483647]"
                                   : "a list of runs [seed, length] of integers of at least 0";
    return stop(cat("\"", name_, "\" has ", what, "; it is ", wanted));
  }

  bool stop(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }

  const size_t max_tokens_;
  int64_t session_ = 0;
  int64_t turn_ = 0;
  std::string namespace_;
  std::vector<int32_t> input_;
  std::vector<int32_t> output_;
  unsigned seen_ = 0;  // a bit for each field
  Field field_ = Field::kSession;
  const char* name_ = nullptr;
  int depth_ = 0;
  uint64_t run_[2] = {};
  size_t run_size_ = 0;
};

}  // namespace

void parse_trace_line(const std::string& line, TraceRequest& request, size_t max_tokens) {
  if (line.starts_with(kByteOrderMark)) fail("the line begins with a byte order mark");
  TraceLine events(max_tokens);
  if (!nlohmann::json::sax_parse(line, &events)) fail(events.problem);
  events.finish(request);
}

Trace::Trace(std::string path, int64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {
  const bool is_standard = path_ == "-";
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  // A pipe gives each byte once, and to open one may wait for its writer.
  if (is_standard || (std::filesystem::exists(status) && !std::filesystem::is_directory(status) &&
                      !std::filesystem::is_regular_file(status)))
    fail("--trace reads its file once for each policy and capacity; ",
         is_standard ? "standard input" : shown(path_) + ", no regular file,",
         " can be read only once");
  errno = 0;
  std::ifstream file(path_);
  // A folder opens, too, but cannot be read.
  if (!file || (file.peek() == std::ifstream::traits_type::eof() && !file.eof()))
    fail("cannot read --trace ", shown(path_), reason());
}

void Trace::read(const Each& each) {
  if (!whole_ || !keeps_) return read_file(each);
  for (size_t i = 0; i < kept_.size(); ++i)
    each(kept_[i], static_cast<double>(i) / static_cast<double>(kept_.size()));
}

void Trace::read_file(const Each& each) {
  std::ifstream file(path_);
  if (!file) fail("cannot read --trace ", shown(path_));
  std::error_code unknown;
  const auto size = static_cast<double>(std::filesystem::file_size(path_, unknown));
  const double all = unknown || size <= 0 ? std::numeric_limits<double>::infinity() : size;
  double done = 0;
  JsonStream stream([&, number = int64_t{0}](std::string& line) mutable {
    if (!read_line(file, line, ++number)) return false;
    done += static_cast<double>(line.size() + 1);
    return true;
  });
  TraceRequest request;
  for (std::string text; stream.next(text);) {
    try {
      parse_trace_line(text, request);
      if (!whole_ && !turns_.emplace(request.session, request.turn).second)
        fail("session ", request.session, " has its turn ", request.turn, " a second time");
      if (!whole_ && keeps_) keep(request);
      each(request, std::min(done / all, 1.0));
    } catch (const Failure& e) {
      fail(shown(path_), ", line ", stream.line(), ": ", e.what());
    }
  }
  if (file.bad()) fail("cannot read --trace ", shown(path_), " to its end");
  whole_ = true;
  turns_.clear();
}

void Trace::keep(const TraceRequest& request) {
  kept_bytes_ += static_cast<int64_t>(request.tokens.size() * sizeof(int32_t));
  if (kept_bytes_ > max_bytes_) {
    keeps_ = false;
    kept_ = {};
    return;
  }
  kept_.push_back(request);
}

}  // namespace prefix_cli
