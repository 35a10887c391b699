// Pages and states that come from elsewhere, to a device that fails while they are written: nothing
// stays held or taken.
#include "cache/page_install.h"

#include <gtest/gtest.h>

#include <vector>

#include "fuzz/still_device.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

struct LostDevice final : fuzz::StillDevice {
  void upload(void* to, const void* from, size_t bytes) override {
    if (uploads-- == 0) fail(Code::kDeviceLost, "the device is lost");
    Device::upload(to, from, bytes);
  }
  int uploads = -1;  // that succeed
};

struct PageInstall : testing::Test {
  const std::byte* bytes() const { return page.data(); }
  NodeId install(int32_t length) {
    const std::vector<int32_t> tokens(static_cast<size_t>(length), 1);
    return install_pages(tree, pool, kv, root, tokens, {}, [this](int32_t) { return bytes(); });
  }
  void expect_nothing_held() const {
    tree.check();
    EXPECT_EQ(tree.held_tokens(), 0);
  }

  const ops::KvLayout layout{ops::KvType::kBf16, 1, 1, 32};
  std::vector<std::byte> page{layout.page_bytes()};
  LostDevice device;
  PagePool pool{20};
  KvMemory kv{device, layout, 20};
  Tree tree{pool};
  const NodeId root = tree.add_root();
};

TEST_F(PageInstall, ADeviceThatFailsLeavesNoLock) {
  tree.unlock(install(64), true);
  for (const int written : {0, 1, 2}) {
    device.uploads = written;
    testing_support::expect_error(Code::kDeviceLost, {"lost"}, [&] { install(64 + 3 * 32); });
    expect_nothing_held();
    EXPECT_EQ(pool.used(), 2) << "what was there before, after " << written << " pages";
    EXPECT_EQ(tree.token_count(), 64);
  }
  device.uploads = -1;
  tree.unlock(install(64 + 3 * 32), true);
  expect_nothing_held();
  EXPECT_EQ(pool.used(), 5);
}

TEST_F(PageInstall, ADeviceThatFailsTakesNoPagesForAState) {
  const NodeId node = install(64);
  const auto install = [&] {
    return install_state(tree, pool, kv, node, 64, 4, 0, [this](int32_t) { return bytes(); });
  };
  for (const int written : {0, 3}) {
    device.uploads = written;
    testing_support::expect_error(Code::kDeviceLost, {"lost"}, install);
    EXPECT_EQ(pool.used(), 2) << "after " << written << " pages";
    EXPECT_EQ(tree.state_page_count(), 0);
    tree.check();
  }
  device.uploads = -1;
  EXPECT_EQ(install(), node);
  EXPECT_EQ(pool.used(), 6);
  tree.unlock(node, true);
  expect_nothing_held();
}

}  // namespace
}  // namespace prefix
