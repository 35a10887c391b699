#include "engine/warnings.h"

#include <string_view>

#include "base/quote.h"
#include "base/status.h"
#include "model/dense_layers.h"

namespace prefix {
namespace {

using Sentences = std::vector<std::string>;

// Those that were set, and are of something that the engine has not.
void tell_idle_options(const Options& options, bool recurrent, bool host_memory, Sentences& told) {
  const auto idle = [&](std::string_view option, std::string_view why) {
    if (options.is_set(option)) told.push_back(cat("option ", option, " has no effect: ", why));
  };
  const bool disk = !options.get("cache_disk").empty();
  if (!disk) idle("cache_disk_bytes", "there is no folder (cache_disk)");
  if (!disk && options.get("cache_store").empty())
    idle("cache_fetch_ms", "there are neither a folder nor a store (cache_disk, cache_store)");
  if (options.get_int("cache_events") == 0)
    idle("cache_event_tokens", "no events are kept (cache_events)");
  if (!recurrent)
    for (const char* option : {"cache_states", "cache_path_states"})
      idle(option, "the model has no recurrent layers");
  if (host_memory)
    for (const char* option : {"cuda_attention", "cuda_graphs"})
      idle(option, "the model runs on the CPU (device)");
}

// Code that comes with a model is not run, and it is often there to take the causality of a known
// model away. One of which that is known here, and a user who has said it, need no word.
void tell_custom_class(const Options& options, const ModelConfig& config, const Declared& declared,
                       Sentences& told) {
  if (declared.custom_class.empty() || config.bidirectional || has_projector(declared) ||
      options.get("attention") != "auto")
    return;
  told.push_back(cat(
      "config.json names class ", quote(declared.custom_class),
      " of code that comes with the model (auto_map), which is not run: the model runs as ",
      quote(declared.model_type), ", where no token sees those behind it; if it is to embed or ",
      "classify and its tokens see each other, option attention=bidirectional says so"));
}

// What can be told before the first request comes.
void tell_little_memory(const ModelConfig& config, const RequestLimits& limits, Sentences& told) {
  RequestSpec smallest;
  smallest.tokens = {0};
  smallest.sampling.max_tokens = 1;
  try {
    check_request(smallest, config, limits);
  } catch (const Error& e) {  // a model may also have nothing to generate with
    if (e.code() == Code::kCacheFull)
      told.push_back(cat("requests cannot generate: ", e.message()));
  }
}

}  // namespace

std::vector<std::string> warnings_of(const Options& options, const ModelConfig& config,
                                     const Declared& declared, const RequestLimits& limits,
                                     bool host_memory) {
  Sentences told;
  tell_idle_options(options, limits.state_pages > 0, host_memory, told);
  tell_custom_class(options, config, declared, told);
  tell_little_memory(config, limits, told);
  return told;
}

}  // namespace prefix
