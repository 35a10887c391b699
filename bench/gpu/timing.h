// How long a call takes on a device, by the wall clock alone.
//
//   few:   [ blocker ][c][c]              |<- wait
//   many:  [ blocker ][c][c][c] ... [c][c][c]|<- wait
//
// The blocker, a matrix product of a millisecond, keeps the device busy while calls are queued
// behind it: launching costs nothing then, as in a CUDA graph. The difference of both times is
// what `many - few` calls take one after another. Medians, because single times have outliers.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace prefix::bench {

struct Times {
  double us = 0;              // of a call, on the device
  double wall_us = 0;         // of a call, with launching and a share of one wait
  bool launch_bound = false;  // queueing outlasted the blocker, so `us` holds some launching, too
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class DeviceClock {
 public:
  // now: microseconds, for tests.
  DeviceClock(std::function<void()> blocker, std::function<void()> wait, int repeats,
              double budget_us, std::function<double()> now = steady_us)
      : blocker_(std::move(blocker)),
        wait_(std::move(wait)),
        now_(std::move(now)),
        repeats_(repeats),
        budget_us_(budget_us) {
    blocker_();
    wait_();
    blocker_us_ = lasting([&] {
      blocker_();
      wait_();
    });
  }

  // call(i): the i-th of a row of calls, which may take turns among buffers.
  Times measure(const std::function<void(int)>& call) const {
    const auto calls = [&](int count) {
      for (int i = 0; i < count; ++i) call(i);
    };
    calls(kFew);
    wait_();
    const double guess = lasting([&] {
                           calls(kFew);
                           wait_();
                         }) /
                         kFew;
    const int more = std::clamp(static_cast<int>(budget_us_ / std::max(guess, 1.0)), 3, 60);
    Times times;
    std::vector<double> device, wall, queued;
    for (int i = 0; i < repeats_; ++i) {
      double queue_us = 0;
      const auto behind_blocker = [&](int count) {
        return lasting([&] {
          blocker_();
          queue_us = lasting([&] { calls(count); });
          wait_();
        });
      };
      const double few = behind_blocker(kFew);
      device.push_back((behind_blocker(kFew + more) - few) / more);
      queued.push_back(queue_us);
      wall.push_back(lasting([&] {
                       calls(kFew + more);
                       wait_();
                     }) /
                     (kFew + more));
    }
    times.us = median(device);
    times.wall_us = median(wall);
    times.launch_bound = median(queued) > blocker_us_;
    return times;
  }

 private:
  static constexpr int kFew = 2;

  static double steady_us() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(time).count();
  }
  template <typename Work>
  double lasting(const Work& work) const {
    const double start = now_();
    work();
    return now_() - start;
  }

  std::function<void()> blocker_, wait_;
  std::function<double()> now_;
  int repeats_;
  double budget_us_;
  double blocker_us_ = 0;
};

}  // namespace prefix::bench
