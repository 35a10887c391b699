#include "abi/handles.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "base/log.h"

namespace prefix::abi {
namespace {

std::atomic<bool> forked{false};

}  // namespace

HandleTable& HandleTable::get() {
  static HandleTable* const kTable = [] {
    // A child has the memory of the parent but none of its threads: nothing there can work.
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    return new HandleTable;
  }();
  return *kTable;
}

void HandleTable::refuse_forked_child(const char* what) {
  if (forked)
    fail(Code::kForked, "this process is the child of a fork(): ", what, " cannot be used");
}

void* HandleTable::add(Kind kind, std::shared_ptr<void> object) {
  refuse_forked_child("a new handle");
  object = droppable_anywhere(std::move(object));
  std::lock_guard lock(mutex_);
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
    free_.reserve(slots_.capacity());  // release() takes no memory
  }
  Slot& slot = slots_[index];
  slot.references = 1;
  slot.kind = kind;
  slot.object = std::move(object);
  const uint64_t bits =
      uint64_t{slot.generation} << 32 | (uint64_t{index} + 1) << 4 | static_cast<uint64_t>(kind);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(bits));
}

HandleTable::Slot* HandleTable::locate(Kind kind, const void* handle) {
  const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  const uint64_t index = (bits >> 4 & 0xfffffff) - 1;
  if ((bits & 15) != static_cast<uint64_t>(kind) || index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  const bool alive = slot.references > 0 && slot.kind == kind && slot.generation == bits >> 32;
  return alive ? &slot : nullptr;
}

HandleTable::Slot& HandleTable::live_slot(Kind kind, const void* handle, const char* what) {
  Slot* const slot = locate(kind, handle);
  if (!slot) fail(Code::kMisuse, what, " was released, or is not a handle of that kind");
  return *slot;
}

std::shared_ptr<void> HandleTable::find(Kind kind, const void* handle, const char* what) {
  refuse_forked_child(what);
  if (!handle) fail(Code::kInvalidArgument, what, " is NULL");
  std::lock_guard lock(mutex_);
  return live_slot(kind, handle, what).object;
}

void HandleTable::retain(Kind kind, const void* handle, const char* what) {
  refuse_forked_child(what);
  if (!handle) fail(Code::kInvalidArgument, what, " is NULL");
  std::lock_guard lock(mutex_);
  ++live_slot(kind, handle, what).references;
}

void HandleTable::release(Kind kind, const void* handle) {
  if (forked || !handle) return;
  std::shared_ptr<void> last;
  {
    std::lock_guard lock(mutex_);
    Slot* slot = locate(kind, handle);
    if (!slot || --slot->references > 0) return;
    last = std::move(slot->object);
    ++slot->generation;
    free_.push_back(static_cast<uint32_t>(slot - slots_.data()));
  }
}

size_t HandleTable::live() {
  std::lock_guard lock(mutex_);
  return slots_.size() - free_.size();
}

}  // namespace prefix::abi
