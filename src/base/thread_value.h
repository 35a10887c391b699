// A value that each thread has for itself, made when the thread first asks for it and freed when the
// thread ends. It is no thread_local with a destructor: glibc ends the process where there is no
// memory to note that the destructor must be called. Here that is a std::bad_alloc.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace prefix {

// One for the life of the process: threads may end at any time. Of a thread that is there until the
// process ends, the value is, too.
template <typename T>
class ThreadValue {
 public:
  ThreadValue() {
    const auto free_value = [](void* value) { delete static_cast<T*>(value); };
    if (pthread_key_create(&key_, free_value) != 0) throw std::bad_alloc();
  }
  ThreadValue(const ThreadValue&) = delete;
  ThreadValue& operator=(const ThreadValue&) = delete;

  T& get() {
    if (void* const value = pthread_getspecific(key_)) return *static_cast<T*>(value);
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  pthread_key_t key_;
};

}  // namespace prefix
