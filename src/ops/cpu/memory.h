// Large zeroed memory straight from the kernel.
#pragma once

#include <cstddef>

namespace prefix::ops {

// Zeroed, at least 64-byte aligned; pages become real when first touched. From 2 MB on it is
// aligned to 2 MB and offered for huge pages: weights and keys are read in long streams, and 4 KB
// pages would miss the TLB every few hundred cycles. Throws Error(kOutOfMemory).
std::byte* map_memory(size_t bytes);
void unmap_memory(std::byte* data, size_t bytes);

}  // namespace prefix::ops
