// A program of bench/ as its user meets it. It lists its options once; reading them, their limits and
// --help come from that list. What it cannot do is one sentence on standard error, and exit code 2.
//
//   int threads = 2;
//   bench::Program program("x_bench", "How fast x is.", "MODEL --threads 1");
//   program.argument("MODEL", "a directory or a .gguf file", model);
//   program.option("--threads", "N", "of the engine", threads, 1, 1024);
//   return program.run(argc, argv, [&] { measure(model, threads); });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace prefix::bench {

// A whole number from `minimum` to `maximum`; throws what `text` is instead.
int64_t read_number(std::string_view what, std::string_view text, int64_t minimum, int64_t maximum);
// One of "a|b|c".
std::string read_choice(std::string_view what, std::string_view text, std::string_view values);

class Program {
 public:
  using Read = std::function<void(const std::string& value)>;

  // The example is arguments of a run that takes seconds. MODEL stands for a model in it, TRACE for a trace.
  Program(std::string_view name, std::string_view measures, std::string_view example);

  // The variables hold the defaults, which --help shows. What `read` reads may come several times.
  Program& argument(std::string_view name, std::string_view help, std::string& into);
  Program& arguments(std::string_view name, std::string_view help, const Read& read);
  Program& option(std::string_view name, std::string_view value, std::string_view help,
                  std::string& into);
  Program& option(std::string_view name, std::string_view value, std::string_view help, int& into,
                  int minimum, int maximum);
  Program& option(std::string_view name, std::string_view value, std::string_view help,
                  const Read& read);
  // Numbers in place of those that it holds.
  Program& list(std::string_view name, std::string_view value, std::string_view help,
                std::vector<int>& into, int minimum, int maximum);
  Program& choice(std::string_view name, std::string_view values, std::string_view help,
                  std::string& into);
  Program& flag(std::string_view name, std::string_view help, bool& into);

  // Returns the exit code. `work` may throw; it is not called for --help.
  int run(int argc, const char* const* argv, const std::function<void()>& work) const;

 private:
  struct Option {
    std::string name, value, help;  // no value: a switch
    bool needed = false, repeats = false;
    Read read;

    bool is_argument() const { return name[0] != '-'; }
  };

  bool read(int argc, const char* const* argv) const;  // false: --help
  const Option& find(std::string_view word, const std::vector<int>& times) const;
  std::string help() const;

  std::string name_, measures_, example_;
  std::vector<Option> options_;
};

}  // namespace prefix::bench
