// Engines over small random checkpoints, for tests that need a running model.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "random_checkpoint.h"

namespace prefix::testing_support {

// A model directory that goes with the object.
class TinyCheckpoint {
 public:
  explicit TinyCheckpoint(const tools::CheckpointShape& shape = {}) {
    static int serial = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("prefix-tiny-" + std::to_string(getpid()) + "-" + std::to_string(serial++)))
                .string();
    tools::write_checkpoint(path_, shape);
  }
  ~TinyCheckpoint() { std::filesystem::remove_all(path_); }
  TinyCheckpoint(const TinyCheckpoint&) = delete;
  TinyCheckpoint& operator=(const TinyCheckpoint&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One with the sizes that TinyCheckpoint has by itself, which goes with the program.
inline const TinyCheckpoint& tiny_checkpoint() {
  static const TinyCheckpoint checkpoint;
  return checkpoint;
}

using OptionList = std::initializer_list<std::pair<const char*, std::string>>;

// The device of the same tests in programs of tests/kernels; null where it is the CPU.
inline const char* test_device() { return std::getenv("PREFIX_TEST_DEVICE"); }

inline Options make_options(OptionList list) {
  Options options;
  options.set("cache_bytes", "64M");
  if (const char* const device = test_device()) {
    options.set("device", device);
    const char* const attention = std::getenv("PREFIX_TEST_CUDA_ATTENTION");
    options.set("invariant", attention ? "false" : "true");
    if (attention) options.set("cuda_attention", attention);
  }
  for (const auto& [key, value] : list) options.set(key, value);
  return options;
}

inline std::shared_ptr<Engine> make_engine(const TinyCheckpoint& checkpoint, OptionList list = {},
                                           Now now = Clock::now) {
  return Engine::create(checkpoint.path(), make_options(list), nullptr, std::move(now));
}

// Whether a token comes before the job is over.
inline bool token_comes(Job& job) {
  while (const std::optional<Event> event = job.next_event(-1))
    if (event->kind == Event::kToken) return true;
  return false;
}

}  // namespace prefix::testing_support
