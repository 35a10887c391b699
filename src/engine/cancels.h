// Jobs of which something was cancelled, for the scheduler: it looks at no others.
//
//   cancel() ──tell()──> listed ──take()──> the place of the job, until the next tell()
//
// Each job has its place in the list from the start, so telling takes no memory.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace prefix {

struct JobState;

// Every function may be called from any thread; jobs end, and take() runs, in that of the scheduler.
class Cancels : public std::enable_shared_from_this<Cancels> {
 public:
  class Place {
   public:
    Place(std::shared_ptr<Cancels> all, JobState* job) : all_(std::move(all)), here_{{job, this}} {
      entry_ = here_.begin();
    }
    // Nothing happens when the job is listed, or over.
    void tell() noexcept {
      std::lock_guard lock(all_->mutex_);
      if (here_.empty()) return;
      all_->listed_.splice(all_->listed_.end(), here_);
      all_->any_ = true;
    }
    // The job is over.
    void end() noexcept {
      std::lock_guard lock(all_->mutex_);
      if (std::exchange(over_, true)) return;
      (here_.empty() ? all_->listed_ : here_).erase(entry_);
    }

   private:
    friend class Cancels;
    struct Entry {
      JobState* job;
      Place* place;
    };

    const std::shared_ptr<Cancels> all_;
    std::list<Entry> here_;  // while it is not listed
    std::list<Entry>::iterator entry_;
    bool over_ = false;
  };

  std::shared_ptr<Place> place_for(JobState* job) {
    return std::make_shared<Place>(shared_from_this(), job);
  }
  bool any() const { return any_; }
  // f(job) for those that are listed, which are not any longer. What is cancelled from then on lists
  // a job again.
  template <typename F>
  void take(const F& f) {
    std::lock_guard lock(mutex_);
    any_ = false;
    while (!listed_.empty()) {
      const auto [job, place] = listed_.front();
      place->here_.splice(place->here_.end(), listed_, listed_.begin());
      f(*job);
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::list<Place::Entry> listed_;
};

}  // namespace prefix
