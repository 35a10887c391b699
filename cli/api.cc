#include "api.h"

#include <nlohmann/json.hpp>

#include "common.h"

namespace prefix_cli {
namespace {

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

int32_t on_progress(double fraction, void* user) {
  const auto& progress = *static_cast<const std::function<void(double)>*>(user);
  if (progress) progress(fraction);
  return 0;
}

}  // namespace

prefix_error no_error() { return PREFIX_ERROR_INIT; }

void check(prefix_status status, const prefix_error& error) {
  // The name of the constant as it stands in the header, so that people can search for it.
  if (status != PREFIX_OK) throw ApiError(prefix_status_name(status), error.message);
}

OptionsHandle make_options(const OptionList& options) {
  prefix_error error = no_error();
  prefix_options* handle = nullptr;
  check(prefix_options_create(&handle, &error), error);
  OptionsHandle owner(handle);
  for (const auto& [key, value] : options)
    check(prefix_options_set(handle, key.data(), key.size(), value.data(), value.size(), &error),
          error);
  return owner;
}

bool Job::wait(int64_t timeout_ms) {
  prefix_error error = no_error();
  const prefix_status status = prefix_job_wait(job_.get(), timeout_ms, &error);
  if (status == PREFIX_ERR_TIMEOUT) return false;
  check(status, error);
  return true;
}

int64_t Job::finished_count() const {
  prefix_error error = no_error();
  size_t count = 0;
  check(prefix_job_finished_count(job_.get(), &count, &error), error);
  return static_cast<int64_t>(count);
}

void Job::cancel(size_t index) {
  prefix_error error = no_error();
  check(prefix_job_cancel_request(job_.get(), index, &error), error);
}

std::optional<Event> Job::next_event(int64_t timeout_ms) {
  prefix_error error = no_error();
  prefix_event event = PREFIX_EVENT_INIT;
  const prefix_status status = prefix_job_next_event(job_.get(), timeout_ms, &event, &error);
  if (status == PREFIX_ERR_TIMEOUT || status == PREFIX_ERR_NO_EVENT) return std::nullopt;
  check(status, error);
  return Event{event.kind == PREFIX_EVENT_TOKEN, static_cast<size_t>(event.request), event.token,
               event.logprob};
}

Result Job::result(size_t index, const std::vector<size_t>& choices) const {
  prefix_error error = no_error();
  prefix_result_info info{};
  info.struct_size = static_cast<int32_t>(sizeof(info));
  check(prefix_job_result_info(job_.get(), index, &info, &error), error);
  Result result;
  result.usage = {info.prompt_tokens, info.cached_tokens, info.shared_tokens, info.computed_tokens,
                  info.generated_tokens};
  result.finish = finish_name(info.finish);
  result.seed = info.seed;
  // Also of a cancelled request: what was made before it ended.
  result.tokens =
      read<std::vector<int32_t>>(64, [&](int32_t* out, size_t n, size_t* needed, prefix_error* e) {
        return prefix_job_partial_tokens(job_.get(), index, out, n, needed, e);
      });
  if (info.status != PREFIX_OK) {
    result.status = prefix_status_name(info.status);
    result.message =
        read<std::string>(1024, [&](char* out, size_t n, size_t* needed, prefix_error* e) {
          return prefix_job_result_message(job_.get(), index, out, n, needed, e);
        });
    return result;
  }
  result.values =
      read<std::vector<float>>(64, [&](float* out, size_t n, size_t* needed, prefix_error* e) {
        return prefix_job_result_values(job_.get(), index, out, n, needed, e);
      });
  result.token_logprobs =
      read<std::vector<float>>(64, [&](float* out, size_t n, size_t* needed, prefix_error* e) {
        return prefix_job_result_logprobs(job_.get(), index, out, n, needed, e);
      });
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

Batch::Batch(prefix_engine* engine) {
  prefix_error error = no_error();
  prefix_batch* batch = nullptr;
  check(prefix_batch_create(engine, &batch, &error), error);
  batch_.reset(batch);
}

void Batch::add(const Request& request, const Prepared& prepared) {
  OptionList list = request.options;
  list.insert(list.end(), prepared.options.begin(), prepared.options.end());
  if (!request.name_space.empty()) list.emplace_back("namespace", request.name_space);
  const OptionsHandle options = list.empty() ? nullptr : make_options(list);
  const int32_t* tokens = prepared.tokens.data();
  const size_t n = prepared.tokens.size();
  prefix_error error = no_error();
  prefix_status status = PREFIX_OK;
  switch (request.task) {
    case Task::kLogits:
      status = prefix_batch_add_logits(batch_.get(), tokens, n, request.ids.data(),
                                       request.ids.size(), options.get(), 0, nullptr, &error);
      break;
    case Task::kLogprobs:
      status = prefix_batch_add_logprobs(batch_.get(), tokens, n, prepared.from, options.get(), 0,
                                         nullptr, &error);
      break;
    case Task::kChoices: {
      std::vector<int32_t> flat;
      std::vector<int64_t> offsets = {0};
      for (const std::vector<int32_t>& choice : prepared.choices) {
        flat.insert(flat.end(), choice.begin(), choice.end());
        offsets.push_back(static_cast<int64_t>(flat.size()));
      }
      status = prefix_batch_add_choices(batch_.get(), tokens, n, flat.data(), flat.size(),
                                        offsets.data(), offsets.size(), options.get(), 0, nullptr,
                                        &error);
      break;
    }
    case Task::kEmbed:
      status =
          prefix_batch_add_embedding(batch_.get(), tokens, n, options.get(), 0, nullptr, &error);
      break;
    case Task::kGenerate:
      status =
          prefix_batch_add_generate(batch_.get(), tokens, n, options.get(), 0, nullptr, &error);
      break;
    case Task::kText:  // not a request of a batch: prepare() refuses it
      break;
  }
  check(status, error);
}

std::string Batch::plan_json() const {
  return read<std::string>(1024, [this](char* out, size_t n, size_t* needed, prefix_error* e) {
    return prefix_batch_plan_json(batch_.get(), out, n, needed, e);
  });
}

Engine::Engine(const std::string& model, const OptionList& options,
               const std::function<void(double)>& progress) {
  prefix_error error = no_error();
  prefix_engine* engine = nullptr;
  check(prefix_engine_create_with_progress(
            model.data(), model.size(), make_options(options).get(), on_progress,
            const_cast<std::function<void(double)>*>(&progress), &engine, &error),
        error);
  engine_.reset(engine);
}

Job Engine::submit(const Batch& batch) {
  prefix_error error = no_error();
  prefix_job* job = nullptr;
  check(prefix_submit(engine_.get(), batch.get(), &job, &error), error);
  return Job(job);
}

std::string model_info_json(const std::string& path) {
  return read<std::string>(1024, [&](char* out, size_t n, size_t* needed, prefix_error* e) {
    return prefix_model_info_json(path.data(), path.size(), out, n, needed, e);
  });
}

std::string Engine::info_json() const {
  return read<std::string>(1024, [this](char* out, size_t n, size_t* needed, prefix_error* e) {
    return prefix_engine_info_json(engine_.get(), out, n, needed, e);
  });
}

std::string Engine::tree_json() const {
  return read<std::string>(1024, [this](char* out, size_t n, size_t* needed, prefix_error* e) {
    return prefix_cache_tree_json(engine_.get(), out, n, needed, e);
  });
}

std::vector<std::string> Engine::warnings() const {
  return nlohmann::json::parse(info_json()).at("warnings").get<std::vector<std::string>>();
}

prefix_engine_stats Engine::stats() const {
  prefix_error error = no_error();
  prefix_engine_stats stats{};
  stats.struct_size = static_cast<int32_t>(sizeof(stats));
  check(prefix_engine_get_stats(engine_.get(), &stats, &error), error);
  return stats;
}

Simulation::Simulation(const std::string& options) {
  prefix_error error = no_error();
  prefix_sim* sim = nullptr;
  check(prefix_sim_create(options.data(), options.size(), &sim, &error), error);
  sim_.reset(sim);
}

std::string Simulation::apply(const std::string& operation) {
  prefix_error error = no_error();
  check(prefix_sim_apply(sim_.get(), operation.data(), operation.size(), &error), error);
  return read<std::string>(1024, [this](char* out, size_t n, size_t* needed, prefix_error* e) {
    return prefix_sim_result(sim_.get(), out, n, needed, e);
  });
}

int64_t Simulation::request(const std::string& name_space, const std::vector<int32_t>& tokens,
                            size_t prompt) {
  prefix_error error = no_error();
  int64_t reused = 0;
  check(prefix_sim_request(sim_.get(), name_space.data(), name_space.size(), tokens.data(),
                           tokens.size(), prompt, &reused, &error),
        error);
  return reused;
}

}  // namespace prefix_cli
