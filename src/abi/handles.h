// Handles of the C interface: opaque pointers that are really numbers.
//
//   pointer bits   63 ........ 32 | 31 ........ 4 | 3 .. 0
//                  generation     | slot + 1      | kind
//
//   slot ─> { generation, kind, references, object }
//
// A handle is looked up, never dereferenced, so a released, foreign or invented pointer is told
// from a live one and answered with kMisuse. A slot's generation grows each time it is reused.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace prefix::abi {

enum class Kind : uint32_t {
  kOptions = 1,
  kEngine = 2,
  kBatch = 3,
  kJob = 4,
  kSim = 5,
  kQueue = 6,
  kSource = 7,
  kPool = 8,
  kConstraint = 9
};

class HandleTable {
 public:
  // The only table; never destroyed, because handles may be released while the process ends.
  static HandleTable& get();

  // Throws kForked in a forked child; `add` and what follows do the same.
  static void refuse_forked_child(const char* what);
  void* add(Kind kind, std::shared_ptr<void> object);
  // Throws kMisuse for anything but a live handle of this kind, kForked in a forked child.
  std::shared_ptr<void> find(Kind kind, const void* handle, const char* what);
  void retain(Kind kind, const void* handle, const char* what);
  // Bad handles are ignored. The object's destructor runs outside the lock,
  // and outside log callbacks.
  void release(Kind kind, const void* handle);
  size_t live();

 private:
  struct Slot {
    uint32_t generation = 1;
    uint32_t references = 0;
    Kind kind = Kind::kOptions;
    std::shared_ptr<void> object;
  };
  // Both with the lock held. locate: null when it is no live handle of this kind.
  Slot* locate(Kind kind, const void* handle);
  Slot& live_slot(Kind kind, const void* handle, const char* what);

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

template <typename T>
std::shared_ptr<T> find(Kind kind, const void* handle, const char* what) {
  return std::static_pointer_cast<T>(HandleTable::get().find(kind, handle, what));
}

}  // namespace prefix::abi
