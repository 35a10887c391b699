// The C interface of the library in the shape this program needs it: handles that release
// themselves and errors that are thrown. No logic lives here.
#pragma once

#include <prefix.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "requests.h"
#include "results.h"

namespace prefix_cli {

// A status that is not OK, with its name and the library's message.
class ApiError : public std::runtime_error {
 public:
  ApiError(std::string name, const std::string& message)
      : std::runtime_error(message), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// Throws ApiError unless status is OK.
void check(prefix_status status, const prefix_error& error);
prefix_error no_error();

// What a call writes: with room for `guess` elements at first, and for as many as it wants then.
template <typename Buffer, typename Get>
Buffer read(size_t guess, const Get& get) {
  Buffer buffer(guess + 1, typename Buffer::value_type());  // text ends with a zero
  while (true) {
    size_t needed = 0;
    prefix_error error = no_error();
    const prefix_status status = get(buffer.data(), buffer.size(), &needed, &error);
    if (status != PREFIX_ERR_BUFFER_TOO_SMALL) {
      check(status, error);
      buffer.resize(needed);
      return buffer;
    }
    buffer.resize(needed + 1);
  }
}

// What the files of a model hold: prefix_model_info_json.
std::string model_info_json(const std::string& path);

using OptionList = std::vector<std::pair<std::string, std::string>>;

// A request whose prompt and choices are token ids.
struct Prepared {
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> choices;
  int32_t from = 1;
  OptionList options;  // in force over those of the request
};

template <typename Handle, void (*Release)(Handle*)>
struct Releaser {
  void operator()(Handle* handle) const { Release(handle); }
};
using OptionsHandle =
    std::unique_ptr<prefix_options, Releaser<prefix_options, prefix_options_release>>;
using EngineHandle = std::unique_ptr<prefix_engine, Releaser<prefix_engine, prefix_engine_release>>;
using BatchHandle = std::unique_ptr<prefix_batch, Releaser<prefix_batch, prefix_batch_release>>;
using SimHandle = std::unique_ptr<prefix_sim, Releaser<prefix_sim, prefix_sim_release>>;
using JobHandle = std::unique_ptr<prefix_job, Releaser<prefix_job, prefix_job_release>>;

OptionsHandle make_options(const OptionList& options);

struct Event {
  bool is_token = false;  // else of no interest here
  size_t request = 0;
  int32_t token = -1;
  float logprob = 0;
};

class Job {
 public:
  explicit Job(prefix_job* job) : job_(job) {}
  // True when every request is finished.
  bool wait(int64_t timeout_ms);
  int64_t finished_count() const;
  void cancel(size_t index);
  // Nothing after timeout_ms, or when the job is done and no event is left.
  std::optional<Event> next_event(int64_t timeout_ms);
  // choices: tokens of each choice, which the library returns in a row.
  Result result(size_t index, const std::vector<size_t>& choices) const;

 private:
  JobHandle job_;
};

class Batch {
 public:
  explicit Batch(prefix_engine* engine);  // null: only to plan
  // Throws ApiError when the request is refused.
  void add(const Request& request, const Prepared& prepared);
  prefix_batch* get() const { return batch_.get(); }
  std::string plan_json() const;

 private:
  BatchHandle batch_;
};

class Engine {
 public:
  // progress is called with a fraction in [0, 1] while the weights load.
  Engine(const std::string& model, const OptionList& options,
         const std::function<void(double)>& progress);
  prefix_engine* get() const { return engine_.get(); }
  Job submit(const Batch& batch);
  std::string info_json() const;
  std::string tree_json() const;
  // Sentences about options that have no effect.
  std::vector<std::string> warnings() const;
  prefix_engine_stats stats() const;

 private:
  EngineHandle engine_;
};

// The cache without a model.
class Simulation {
 public:
  explicit Simulation(const std::string& options);  // a JSON object
  // The result of an operation, both one line of JSON.
  std::string apply(const std::string& operation);
  // Tokens of the prompt that were in the cache.
  int64_t request(const std::string& name_space, const std::vector<int32_t>& tokens, size_t prompt);

 private:
  SimHandle sim_;
};

}  // namespace prefix_cli
