// Signals of the process belong to the host: a thread of the library must not be the one that takes
// them.
#pragma once

#include <signal.h>

namespace prefix {

// Threads that are started in its scope take no signals but their own faults, and the clock of a
// profiler. A host that waits for SIGTERM in a thread of its own gets it; and a write above the
// file size limit (SIGXFSZ) is an error of that write, not the end of the process.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace prefix
