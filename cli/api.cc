#include "api.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common.h"

namespace prefix_cli {
const char* finish_name(int32_t finish) {
  switch (finish) {
    case PREFIX_FINISH_STOP:
      return "stop";
    case PREFIX_FINISH_LENGTH:
      return "length";
    case PREFIX_FINISH_CANCELLED:
      return "cancelled";
    case PREFIX_FINISH_ERROR:
      return "error";
    default:
      return "none";
  }
}

prefix::Options make_options(const OptionList& options) {
  prefix::Options made;
  for (const auto& [key, value] : options) made.set(key, value);
  return made;
}

prefix_option_details option_details(std::string_view key) {
  for (size_t i = 0;; ++i) {
    prefix_error error = PREFIX_ERROR_INIT;
    prefix_option_details option = PREFIX_OPTION_DETAILS_INIT;
    check(prefix_option_info(i, &option, &error), error);
    if (option.key == key) return option;
  }
}

Engine open_engine(const std::string& model, const OptionList& options,
                   const std::function<void(double)>& progress) {
  const prefix::Options made = make_options(options);
  Engine engine = Engine::open(model, &made);
  for (bool ready = false; !ready;) {
    double fraction = 0;
    ready = engine.wait(std::chrono::milliseconds(100), &fraction);
    progress(fraction);
  }
  return engine;
}

std::vector<std::string> logged_warnings() {
  std::vector<std::string> found;
  while (const auto message = prefix::next_log())
    if (message->level >= PREFIX_LOG_WARNING &&
        std::ranges::find(found, message->text) == found.end())
      found.push_back(message->text);
  return found;
}

void Warnings::tell(const Engine& engine) {
  std::vector<std::string> warnings = logged_warnings();
  const auto info = nlohmann::json::parse(engine.info_json());
  for (const auto& warning : info.at("warnings")) warnings.push_back(warning.get<std::string>());
  for (const std::string& warning : warnings)
    if (told_.insert(warning).second) std::cerr << title_ << ": warning: " << warning << "\n";
}

LogOnStandardError::LogOnStandardError() {
  prefix_set_log_callback(
      [](int32_t level, const char* text, void*) {
        const char* const kind = level < PREFIX_LOG_ERROR ? "warning" : "error";
        std::cerr << cat("prefix run: ", kind, ": ", text, "\n");
      },
      nullptr);
}

LogOnStandardError::~LogOnStandardError() { prefix_set_log_callback(nullptr, nullptr); }

void add(Batch& batch, const Request& request, const Prepared& prepared) {
  OptionList list = request.options;
  list.insert(list.end(), prepared.options.begin(), prepared.options.end());
  if (!request.name_space.empty()) list.emplace_back("namespace", request.name_space);
  if (!request.adapter.empty()) list.emplace_back("adapter", request.adapter);
  const prefix::Options options = make_options(list);
  const prefix::Extra extra{list.empty() ? nullptr : &options, 0};
  switch (request.task) {
    case Task::kLogits:
      batch.add_logits(prepared.tokens, request.ids, extra);
      break;
    case Task::kLogprobs:
      batch.add_logprobs(prepared.tokens, prepared.from, extra);
      break;
    case Task::kChoices:
      batch.add_choices(prepared.tokens, prepared.choices, extra);
      break;
    case Task::kEmbed:
      batch.add_embedding(prepared.tokens, extra);
      break;
    case Task::kGenerate:
      batch.add_generate(prepared.tokens, extra);
      break;
    case Task::kText:  // not a request of a batch: prepare() refuses it
      break;
  }
}

namespace {

// Of each place, without texts. Those of a request that ended early are read place by place.
std::vector<std::vector<TopToken>> top_of(const Job& job, size_t index, size_t top, size_t places,
                                          bool is_whole) {
  std::vector<std::vector<TopToken>> list;
  if (top == 0) return list;
  std::vector<int32_t> tokens(top * places);
  std::vector<float> logprobs(top * places);
  prefix_error error = PREFIX_ERROR_INIT;
  if (is_whole && places > 0)
    check(prefix_job_result_top(job.get(), index, tokens.data(), tokens.size(), nullptr,
                                logprobs.data(), logprobs.size(), &error),
          error);
  for (size_t place = 0; place < places; ++place) {
    const size_t at = place * top;
    if (!is_whole)
      check(prefix_job_partial_top(job.get(), index, place, &tokens[at], top, nullptr,
                                   &logprobs[at], top, &error),
            error);
    list.emplace_back();
    for (size_t i = at; i < at + top; ++i) list.back().push_back({tokens[i], logprobs[i], {}});
  }
  return list;
}

}  // namespace

Result result_of(const Job& job, size_t index, const std::vector<size_t>& choices, size_t top) {
  const prefix_result_info info = job.info(index);
  Result result;
  result.usage.add(info);
  result.finish = finish_name(info.finish);
  result.seed = info.seed;
  // Also of a cancelled request: what was made before it ended.
  result.tokens = job.partial_tokens(index);
  if (info.status != PREFIX_OK) {
    result.top = top_of(job, index, top, result.tokens.size(), false);
    // The name of the constant as it stands in the header, so that people can search for it.
    result.status = prefix_status_name(info.status);
    result.message = job.message(index);
    return result;
  }
  result.values = job.values(index);
  result.top = top_of(job, index, top, std::max(result.tokens.size(), result.values.size()), true);
  result.token_logprobs = job.logprobs(index);
  size_t begin = 0;
  for (const size_t count : choices) {
    if (begin + count > result.token_logprobs.size())
      fail("the library returned ", result.token_logprobs.size(),
           " log-probabilities for choices with at least ", begin + count, " tokens");
    const auto from = result.token_logprobs.begin() + static_cast<std::ptrdiff_t>(begin);
    result.choice_logprobs.emplace_back(from, from + static_cast<std::ptrdiff_t>(count));
    begin += count;
  }
  return result;
}

}  // namespace prefix_cli
