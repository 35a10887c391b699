// Code outside the engine that says which tokens may come next in a generation: prefix_constraint.
#pragma once

#include <cstddef>
#include <cstdint>

namespace prefix {

class Constraint {
 public:
  // As the types of prefix.h say. A number but 0 is a failure.
  struct Calls {
    int32_t (*begin)(void* user, void** state);
    int32_t (*allow)(void* state, uint32_t* mask, size_t words);
    int32_t (*accept)(void* state, int32_t token);
    void (*end)(void* state);
  };

  Constraint(const Calls& calls, void* user) : calls_(calls), user_(user) {}
  ~Constraint() {
    if (release_) release_(user_);
  }
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  // At its end; null: nothing. Before others have it.
  void release_with(void (*release)(void* user)) { release_ = release; }

  const Calls& calls() const { return calls_; }
  void* user() const { return user_; }

 private:
  Calls calls_;
  void* user_;
  void (*release_)(void* user) = nullptr;
};

}  // namespace prefix
