// Something that happens in a process of its own, so that it can be killed, limited or imprisoned.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace prefix::testing_support {

// An exit code by which the child says that this machine does not let it do what it should.
inline constexpr int kNotPermitted = 77;

// Runs `action` in a child; its value is the exit code. 1000 + signal when one ended the child.
template <typename Action>
int in_child(const Action& action) {
  const pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace prefix::testing_support
