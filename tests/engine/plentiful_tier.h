// A tier that has memory while the test lets that of others run out.
#pragma once

#include <utility>

#include "lower_tiers_support.h"
#include "support/failing_new.h"

namespace prefix::testing_support {

class PlentifulTier final : public Tier {
 public:
  FakeTier fake;

  TicketPtr exists(std::span<const PageKey> keys) noexcept override {
    const Plenty plenty;
    return fake.exists(keys);
  }
  TicketPtr get(std::span<const PageKey> keys,
                std::span<const PageBuffer> buffers) noexcept override {
    const Plenty plenty;
    return fake.get(keys, buffers);
  }
  TicketPtr put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept override {
    const Plenty plenty;
    return fake.put(keys, blobs);
  }
  TierStats stats() const noexcept override { return {}; }
  TicketPtr use(std::span<const PageKey> keys) noexcept override {
    const Plenty plenty;
    return fake.use(keys);
  }

 private:
  struct Plenty {
    ~Plenty() { allocations_left = before; }
    const int64_t before = std::exchange(allocations_left, -1);
  };
};

}  // namespace prefix::testing_support
