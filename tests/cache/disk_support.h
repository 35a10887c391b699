// Pages whose bytes follow from a number, and short ways to put and get them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cache/disk_tier.h"
#include "support/cases.h"

namespace prefix::testing_support {

inline PageKey key_of(uint64_t number) {
  const auto token = static_cast<int32_t>(number);
  return page_key(PageKey{}, {&token, 1});
}

// Bytes that no other number has at any place for long.
inline std::vector<std::byte> page_of(uint64_t number, size_t size) {
  std::vector<std::byte> page(size);
  uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < size; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(page.data() + i, &state, std::min<size_t>(8, size - i));
  }
  return page;
}

inline PageBlob blob_of(const std::vector<std::byte>& page) {
  std::shared_ptr<std::byte[]> data(new std::byte[page.size()]);
  std::copy(page.begin(), page.end(), data.get());
  return {data, page.size()};
}
inline PageBuffer buffer_of(size_t size) {
  return {std::shared_ptr<std::byte[]>(new std::byte[size]()), size};
}

inline void finish(const TicketPtr& ticket) {
  ASSERT_TRUE(ticket->wait_for(std::chrono::minutes(5))) << "the tier has stopped";
}

// Puts one page and waits; true when the tier has it now.
inline bool put(Tier& tier, uint64_t number, size_t size) {
  const PageKey key = key_of(number);
  const PageBlob blob = blob_of(page_of(number, size));
  const TicketPtr ticket = tier.put({&key, 1}, {&blob, 1});
  finish(ticket);
  return ticket->hit(0);
}

enum class Got { kMiss, kRight, kWrong };
inline Got get(Tier& tier, uint64_t number, size_t size) {
  const PageKey key = key_of(number);
  const PageBuffer buffer = buffer_of(size);
  const TicketPtr ticket = tier.get({&key, 1}, {&buffer, 1});
  finish(ticket);
  if (!ticket->hit(0)) return Got::kMiss;
  const std::vector<std::byte> page = page_of(number, size);
  return std::equal(page.begin(), page.end(), buffer.data.get()) ? Got::kRight : Got::kWrong;
}
inline bool exists(Tier& tier, uint64_t number) {
  const PageKey key = key_of(number);
  const TicketPtr ticket = tier.exists({&key, 1});
  finish(ticket);
  return ticket->hit(0);
}

inline DiskTierOptions options_for(const std::string& folder, uint64_t cap = 1 << 30) {
  DiskTierOptions options;
  options.folder = folder;
  options.cap_bytes = cap;
  options.pause = std::chrono::nanoseconds(0);
  return options;
}

inline std::string file_of(const std::string& folder, uint64_t number) {
  return folder + "/" + disk_page_name(key_of(number));
}

// What really lies in a folder.
struct Contents {
  uint64_t pages = 0;
  uint64_t bytes = 0;
  uint64_t temporary = 0;
};
inline Contents contents_of(const std::string& folder) {
  Contents contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (entry.path().extension() == ".tmp") ++contents.temporary;
    if (entry.path().extension() != ".page") continue;
    ++contents.pages;
    contents.bytes += entry.file_size();
  }
  return contents;
}

inline void expect_exact(const Tier& tier, const std::string& folder) {
  const Contents contents = contents_of(folder);
  EXPECT_EQ(tier.stats().pages, contents.pages);
  EXPECT_EQ(tier.stats().bytes, contents.bytes);
  EXPECT_EQ(contents.temporary, 0u);
}

}  // namespace prefix::testing_support
