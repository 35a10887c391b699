/* prefix_constraint.hpp - which tokens may come next in a generation, as objects of the program
 * decide it. prefix.hpp includes it; the rules stand at prefix_constraint in prefix.h.
 *
 *   struct Even : prefix::ConstraintState {
 *     void allow(prefix::TokenMask& mask) override {
 *       for (prefix_token token = 0; token < 128; token += 2) mask.allow(token);
 *     }
 *     void accept(prefix_token) override {}
 *   };
 *   const prefix::Constraint even([] { return std::make_unique<Even>(); });
 *   batch.constrain(batch.add_generate(tokens), &even);
 */
#ifndef PREFIX_CONSTRAINT_HPP
#define PREFIX_CONSTRAINT_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "prefix_calls.hpp"

namespace prefix {
inline namespace cpp1 {

/* The tokens that may come next: none of them at first. */
class TokenMask {
 public:
  explicit TokenMask(std::span<uint32_t> words) : words_(words) {}
  /* Throws std::out_of_range for what is no token of the model. */
  void allow(prefix_token token) {
    const auto bit = static_cast<size_t>(token);
    if (token < 0 || bit / 32 >= words_.size())
      throw std::out_of_range("token " + std::to_string(token) + " is beyond the vocabulary");
    words_[bit / 32] |= uint32_t{1} << (bit % 32);
  }
  /* Token i is bit i % 32 of word i / 32. */
  std::span<uint32_t> words() const noexcept { return words_; }

 private:
  std::span<uint32_t> words_;
};

/* One generation. What allow() or accept() throws ends the request with INVALID_ARGUMENT. */
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;
  /* Where the text may end here, the model's end tokens are among those that are allowed. */
  virtual void allow(TokenMask& mask) = 0;
  /* The generation goes on behind this token. */
  virtual void accept(prefix_token token) = 0;
};

/* begin() gives the state of a new generation, a std::unique_ptr; it is called by several threads
 * at once. Batches and jobs that have the constraint keep it. */
class Constraint {
 public:
  template <typename Begin>
    requires(!std::same_as<std::remove_cvref_t<Begin>, Constraint> &&
             std::convertible_to<std::invoke_result_t<std::decay_t<Begin>&>,
                                 std::unique_ptr<ConstraintState>>)
  explicit Constraint(Begin&& begin, prefix_error* error = nullptr) {
    using Kept = std::decay_t<Begin>;
    auto kept = std::make_unique<Kept>(std::forward<Begin>(begin));
    prefix_constraint_calls calls = PREFIX_CONSTRAINT_CALLS_INIT;
    calls.begin = [](void* user, void** state) {
      return guarded([&] {
        std::unique_ptr<ConstraintState> made = (*static_cast<Kept*>(user))();
        if (!made) throw std::logic_error("there is no state");
        *state = made.release();
      });
    };
    calls.allow = [](void* state, uint32_t* words, size_t count) {
      return guarded([&] {
        TokenMask mask(std::span(words, count));
        static_cast<ConstraintState*>(state)->allow(mask);
      });
    };
    calls.accept = [](void* state, prefix_token token) {
      return guarded([&] { static_cast<ConstraintState*>(state)->accept(token); });
    };
    calls.end = [](void* state) { delete static_cast<ConstraintState*>(state); };
    calls.release = [](void* user) { delete static_cast<Kept*>(user); };
    handle_.reset(detail::made<prefix_constraint>(
        error, [&](auto... to) { return prefix_constraint_create(&calls, kept.get(), to...); }));
    if (handle_) kept.release();  // the library's now
  }
  prefix_constraint* get() const noexcept { return handle_.get(); }

 private:
  // No exception goes through C: 0, or -1 where there was one.
  template <typename Function>
  static int32_t guarded(const Function& function) noexcept {
    try {
      function();
      return 0;
    } catch (...) {
      return -1;
    }
  }

  detail::Handle<prefix_constraint, prefix_constraint_release> handle_;
};

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_CONSTRAINT_HPP */
