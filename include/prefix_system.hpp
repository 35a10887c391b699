/* prefix_system.hpp - what there is without an engine, in the shape of C++20: versions, features,
 * options, devices, messages; the cache without a model, and order and parts of prompts. prefix.hpp
 * includes it.
 */
#ifndef PREFIX_SYSTEM_HPP
#define PREFIX_SYSTEM_HPP

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prefix_calls.hpp"

namespace prefix {
inline namespace cpp1 {

/* "major.minor.patch" of the loaded library. */
inline std::string version() { return prefix_version_string(); }
/* Of the interface that the loaded library has. */
inline int32_t abi_version() { return prefix_abi_version(); }
/* One line for bug reports. */
inline std::string build_info() { return prefix_build_info(); }

/* What the library was built with and this machine can run. */
inline std::vector<std::string> features() {
  std::vector<std::string> names;
  for (size_t i = 0; i < prefix_feature_count(); ++i) names.emplace_back(prefix_feature_name(i));
  return names;
}
inline bool has_feature(Text name) { return prefix_has_feature(name.data(), name.size()) != 0; }

/* Every option there is. */
inline std::vector<prefix_option_details> option_infos() {
  std::vector<prefix_option_details> all(prefix_option_count(), PREFIX_OPTION_DETAILS_INIT);
  for (size_t i = 0; i < all.size(); ++i)
    call(nullptr, [&](prefix_error* e) { return prefix_option_info(i, &all[i], e); });
  return all;
}

/* The CPU, then the GPUs in the order of option device = cuda:0, cuda:1, ... */
inline std::vector<prefix_device_details> devices() {
  std::vector<prefix_device_details> all(prefix_device_count(), PREFIX_DEVICE_DETAILS_INIT);
  for (size_t i = 0; i < all.size(); ++i)
    call(nullptr, [&](prefix_error* e) { return prefix_device_info(i, &all[i], e); });
  return all;
}

/* A message of the library, or of the program: PREFIX_LOG_*. */
struct LogMessage {
  int32_t level = 0;
  std::string text;
};
/* Messages below it are dropped. */
inline void set_log_level(int32_t level) { prefix_set_log_level(level); }
/* The oldest of the last 1,024; nothing when there is none. */
inline std::optional<LogMessage> next_log() {
  LogMessage message;
  prefix_error failure = PREFIX_ERROR_INIT;
  message.text = read<std::string>(
      256,
      [&](char* buffer, size_t capacity, size_t* needed, prefix_error*) {
        return prefix_log_next(&message.level, buffer, capacity, needed);
      },
      &failure);
  return failure.code == PREFIX_OK ? std::optional(message) : std::nullopt;
}
inline void log_write(int32_t level, Text text, prefix_error* error = nullptr) {
  call(error,
       [&](prefix_error* e) { return prefix_log_write(level, text.data(), text.size(), e); });
}

/* The cache without a model. */
class Simulation {
 public:
  /* options: a JSON object, see prefix_sim_create. */
  explicit Simulation(Text options = "{}")
      : handle_(detail::made<prefix_sim>(nullptr, [&](prefix_sim** out, prefix_error* e) {
          return prefix_sim_create(options.data(), options.size(), out, e);
        })) {}
  /* The result of an operation, both a JSON object. */
  std::string apply(Text operation, prefix_error* error = nullptr) {
    const bool done = call(error, [&](prefix_error* e) {
      return prefix_sim_apply(get(), operation.data(), operation.size(), e);
    });
    if (!done) return {};
    return read<std::string>(
        1024, [&](auto... to) { return prefix_sim_result(get(), to...); }, error);
  }
  /* Tokens of the prompt that were in the cache. */
  int64_t request(Text ns, std::span<const prefix_token> tokens, size_t n_prompt,
                  prefix_error* error = nullptr) {
    return detail::filled<int64_t>(0, error, [&](auto... to) {
      return prefix_sim_request(get(), ns.data(), ns.size(), tokens.data(), tokens.size(), n_prompt,
                                to...);
    });
  }
  prefix_sim* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<prefix_sim, prefix_sim_release> handle_;
};

/* ---- Order and parts, see prefix.h ---- */

struct TableOrder {
  std::vector<int64_t> rows;    /* of each prompt */
  std::vector<int32_t> columns; /* of each prompt, as they stand in it */
  prefix_order_info info = PREFIX_ORDER_INFO_INIT;
};
/* values: row after row; lengths: of each, or none. */
inline TableOrder order(std::span<const int64_t> values, std::span<const int32_t> lengths,
                        size_t columns, prefix_error* error = nullptr) {
  TableOrder found;
  found.rows.resize(columns > 0 ? values.size() / columns : 0);
  found.columns.resize(values.size());
  const bool done = call(error, [&](prefix_error* e) {
    return prefix_order(values.data(), values.size(), lengths.data(), lengths.size(), columns,
                        found.rows.data(), found.rows.size(), found.columns.data(),
                        found.columns.size(), &found.info, e);
  });
  return done ? found : TableOrder{};
}

struct Parts {
  std::vector<int32_t> parts; /* of each prompt */
  std::vector<int64_t> order; /* the prompts, part after part */
  std::vector<int64_t> work;  /* of each part */
  prefix_partition_info info = PREFIX_PARTITION_INFO_INIT;
};
/* offsets: where each prompt begins in tokens, and the end. */
inline Parts partition(std::span<const prefix_token> tokens, std::span<const int64_t> offsets,
                       int32_t n_parts, double balance = 0, prefix_error* error = nullptr) {
  Parts found;
  found.parts.resize(offsets.empty() ? 0 : offsets.size() - 1);
  found.order.resize(found.parts.size());
  found.work.resize(static_cast<size_t>(std::clamp(n_parts, 0, 1 << 20)));  // more are refused
  const bool done = call(error, [&](prefix_error* e) {
    return prefix_partition(tokens.data(), tokens.size(), offsets.data(), offsets.size(), n_parts,
                            balance, found.parts.data(), found.parts.size(), found.order.data(),
                            found.order.size(), found.work.data(), found.work.size(), &found.info,
                            e);
  });
  return done ? found : Parts{};
}

struct BatchEstimate {
  std::vector<int64_t> computed; /* by each prompt */
  prefix_estimate_info info = PREFIX_ESTIMATE_INFO_INIT;
};
inline BatchEstimate estimate_batch(std::span<const prefix_token> tokens,
                                    std::span<const int64_t> offsets,
                                    prefix_error* error = nullptr) {
  BatchEstimate found;
  found.computed.resize(offsets.empty() ? 0 : offsets.size() - 1);
  const bool done = call(error, [&](prefix_error* e) {
    return prefix_estimate_batch(tokens.data(), tokens.size(), offsets.data(), offsets.size(),
                                 found.computed.data(), found.computed.size(), &found.info, e);
  });
  return done ? found : BatchEstimate{};
}

/* What a model holds, from the headers of its files alone, as JSON. */
inline std::string model_info_json(Text path, prefix_error* error = nullptr) {
  return read<std::string>(
      2048, [&](auto... to) { return prefix_model_info_json(path.data(), path.size(), to...); },
      error);
}

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_SYSTEM_HPP */
