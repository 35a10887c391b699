#include "folder.h"

#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix::bench {
namespace {

void remove(const std::string& path) {
  constexpr int kTries = 100;  // files may still come into it
  std::error_code failed = std::make_error_code(std::errc::directory_not_empty);
  for (int i = 0; failed && i < kTries; ++i) std::filesystem::remove_all(path, failed);
}

// Those that there are, and the thread that removes them when a signal ends the program.
class Folders {
 public:
  // Never destroyed: the thread lives as long as the program.
  static Folders& all() {
    static Folders& folders = *new Folders;
    return folders;
  }
  void add(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.insert(path);
  }
  void take(const std::string& path) {
    const std::lock_guard lock(mutex_);
    remove(path);
    paths_.erase(path);
  }

 private:
  Folders() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now;
      if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&ends, number);
    }
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    std::thread([this, ends] { wait(ends); }).detach();
  }
  [[noreturn]] void wait(const sigset_t& ends) {
    int number = 0;
    while (sigwait(&ends, &number) != 0) {
    }
    const std::lock_guard lock(mutex_);  // no more come
    for (const std::string& path : paths_) remove(path);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    raise(number);
    std::abort();  // nobody handles it
  }

  std::mutex mutex_;
  std::set<std::string> paths_;
};

}  // namespace

Folder::Folder()
    : path_((std::filesystem::temp_directory_path() / "prefix-bench-XXXXXX").string()) {
  Folders& folders = Folders::all();  // before there is one
  if (mkdtemp(path_.data()) == nullptr)
    fail(Code::kIo, "cannot make the folder ", quote_path(path_), ": ", error_text(errno));
  folders.add(path_);
}

Folder::~Folder() { Folders::all().take(path_); }

}  // namespace prefix::bench
