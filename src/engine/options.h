// String-keyed options that describe themselves.
//
// One table (options.cc) lists every option with its type, default, range, scope and one sentence
// of documentation; setting, checking, listing (prefix_option_info) and the docs all come from it,
// so a new option is one line there and never a change of the ABI.
// Values are kept as text, those of kStringList as a JSON array.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/threads.h"

namespace prefix {

enum class OptionType : int32_t {
  kInt = 0,
  kFloat = 1,
  kBool = 2,
  kString = 3,
  kIntList = 4,
  kStringList = 5
};
// What takes an option: kRequest requests of every kind, kTask the tasks of libprefix_text, which
// take those of their requests too.
enum class OptionScope : int32_t {
  kEngine = 0,
  kRequest = 1,
  kGenerate = 2,
  kEmbedding = 3,
  kTask = 4
};

struct OptionInfo {
  std::string_view key;
  OptionType type;
  OptionScope scope;
  std::string_view default_value;
  double minimum;  // kInt, kFloat
  double maximum;
  std::string_view values;  // kString: "a|b|c", or empty for free text
  std::string_view doc;
};

std::span<const OptionInfo> option_table();

class Options {
 public:
  // Throws kUnknownOption (naming the nearest key), kInvalidArgument or kOutOfRange (naming the
  // value and the limits). Byte sizes take suffixes K, M, G (powers of 1024). `given`: what the
  // value was before it became text; kString: a text, which may stand for any type.
  void set(std::string_view key, std::string_view value, OptionType given = OptionType::kString);
  // Merges a JSON object {"key": value}; all keys are checked before any is set.
  void set_json(std::string_view json);
  // What was set, as set_json takes it.
  std::string to_json() const;

  std::string get(std::string_view key) const;  // the value in force
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  bool get_bool(std::string_view key) const;
  std::vector<int32_t> get_ints(std::string_view key) const;
  bool is_set(std::string_view key) const;
  // Throws kInvalidArgument for an option that is set and of no effect on `what`, which takes those
  // of these scopes, and `also`.
  void require_scopes(std::initializer_list<OptionScope> scopes, std::string_view what,
                      std::string_view also = {}) const;

  // Worker threads to share with other engines, the one option that is no text; null: none.
  // Returns the one before.
  std::shared_ptr<Threads> exchange_pool(std::shared_ptr<Threads> pool) {
    return std::exchange(pool_, std::move(pool));
  }
  const std::shared_ptr<Threads>& pool() const { return pool_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::shared_ptr<Threads> pool_;
};

}  // namespace prefix
