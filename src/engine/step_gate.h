// Lets calls have the engine between two of its steps.
//
//   steps   ─ step ─┤ who waits ├─ step ─┤ who waits ├─ step ─
//   calls     came before it ───┘  came meanwhile ───┘
//
// No step begins before all have gone that waited when the last one ended, and who comes meanwhile
// goes behind it: calls in a row leave every step its turn. While there is nothing to compute, or
// steps rest because all requests wait for something, they go as they come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace prefix {

// All of it with the lock held that guards the engine.
class StepGate {
 public:
  bool stepping() const { return stepping_; }  // the lock is let go meanwhile
  void begin_step() { stepping_ = true; }
  // Returns when all that wait now have gone.
  void end_step(std::unique_lock<std::mutex>& lock) {
    stepping_ = resting_ = false;
    until_ = calls_;
    if (left_ = waiting_; left_ == 0) return;
    changed_.notify_all();
    changed_.wait(lock, [this] { return left_ == 0; });
  }
  // No step is made before the next end_step().
  void rest() {
    resting_ = true;
    changed_.notify_all();
  }
  // After a change of what open() tells.
  void look_again() { changed_.notify_all(); }

  // A call, made when it may go, and over when this is gone. open(): no step is to come.
  class Call {
   public:
    template <typename Open>
    Call(StepGate& gate, std::unique_lock<std::mutex>& lock, const Open& open)
        : gate_(gate), number_(++gate.calls_) {
      ++gate_.waiting_;
      gate_.changed_.wait(
          lock, [&] { return !gate_.stepping_ && (gate_.resting_ || in_turn() || open()); });
    }
    ~Call() {
      --gate_.waiting_;
      if (in_turn() && --gate_.left_ == 0) gate_.changed_.notify_all();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    bool in_turn() const { return number_ <= gate_.until_; }

    StepGate& gate_;
    const int64_t number_;
  };

 private:
  std::condition_variable changed_;
  bool stepping_ = false, resting_ = false;
  int64_t calls_ = 0;  // so far
  int64_t until_ = 0;  // the last of them that goes before the next step
  int waiting_ = 0;    // that are not over
  int left_ = 0;       // of those that go before the next step
};

}  // namespace prefix
