// One line on standard error that is rewritten while something runs.
#pragma once

#include <cstdint>
#include <string>

namespace prefix_cli {

class Progress {
 public:
  // mode: "on", "off", or "auto" = on when standard error is a terminal.
  Progress(std::string title, const std::string& mode);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // How long a wait may be before the line is due again.
  int64_t interval_ms() const { return 200; }
  void show(int64_t done, int64_t total);
  void show_load(double fraction);
  // What is being done, and how much of it, in [0, 1].
  void show_share(const std::string& what, double fraction);
  // Takes the line away, so that other output starts in a clean one.
  void clear();

 private:
  void print(const std::string& line);

  std::string title_;
  bool on_ = false;
  bool shown_ = false;
  std::string last_what_;
  int last_percent_ = -1;
};

}  // namespace prefix_cli
