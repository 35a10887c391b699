#include "ops/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "base/error_text.h"
#include "base/status.h"

namespace prefix::ops {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t mapped_size(size_t bytes) { return (bytes + kSmallPage - 1) / kSmallPage * kSmallPage; }

std::byte* map(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    fail(Code::kOutOfMemory, "cannot map ", bytes, " bytes: ", error_text(errno));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

std::byte* map_memory(size_t bytes) {
  if (bytes == 0) bytes = 1;
  if (bytes > SIZE_MAX - 2 * kHugePage) {
    fail(Code::kOutOfMemory, "cannot map ", bytes, " bytes: more than the address space");
  }
  const size_t size = mapped_size(bytes);
  if (size < kHugePage) return map(size);
  // Map more than needed and give back both ends.
  std::byte* const raw = map(size + kHugePage);
  const size_t misalignment = reinterpret_cast<uintptr_t>(raw) % kHugePage;
  const size_t head = misalignment == 0 ? 0 : kHugePage - misalignment;
  if (head > 0) munmap(raw, head);
  if (head < kHugePage) munmap(raw + head + size, kHugePage - head);
  madvise(raw + head, size, MADV_HUGEPAGE);  // a wish; the kernel may refuse
  return raw + head;
}

void unmap_memory(std::byte* data, size_t bytes) {
  if (data == nullptr) return;
  munmap(data, mapped_size(bytes == 0 ? 1 : bytes));
}

}  // namespace prefix::ops
