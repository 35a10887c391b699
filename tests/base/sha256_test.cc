#include "base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/hex.h"
#include "support/sha256.h"

namespace prefix {
namespace {

using testing_support::hex_of;

std::string hash(std::string_view text, Sha256Path path) {
  return hex_of(Sha256(path).update(text.data(), text.size()).finish());
}

class EveryPath : public testing::TestWithParam<Sha256Path> {
 protected:
  void SetUp() override {
    if (!sha256_path_runs(GetParam())) GTEST_SKIP() << "this processor lacks the SHA extensions";
  }
};

INSTANTIATE_TEST_SUITE_P(Sha256, EveryPath,
                         testing::Values(Sha256Path::kPortable, Sha256Path::kShaNi),
                         [](const auto& path) {
                           return path.param == Sha256Path::kPortable ? "Portable" : "ShaNi";
                         });

// The examples that NIST publishes with FIPS 180-4.
TEST_P(EveryPath, MatchesThePublishedVectors) {
  EXPECT_EQ(hash("", GetParam()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc", GetParam()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", GetParam()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                 GetParam()),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hash(std::string(1000000, 'a'), GetParam()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TheReferenceKnowsTheExamplesOfTheStandard) {
  const auto of = [](const std::string& text) {
    return testing_support::sha256(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The reference in tests/support computes its constants from the primes.
TEST_P(EveryPath, MatchesTheReferenceAtEveryLengthAroundABlock) {
  std::vector<std::byte> data(400);
  std::mt19937 random(1);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  for (size_t n = 0; n <= data.size(); ++n) {
    const std::span<const std::byte> part = std::span<const std::byte>(data).first(n);
    ASSERT_EQ(hex_of(Sha256(GetParam()).update(part).finish()), testing_support::sha256(part)) << n;
  }
}

TEST_P(EveryPath, ChunksGiveTheDigestOfTheWhole) {
  std::vector<std::byte> data(5000);
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  const std::string whole = hex_of(Sha256(GetParam()).update(data).finish());
  for (int round = 0; round < 300; ++round) {
    Sha256 hash(GetParam());
    const size_t longest = 1 + random() % 300;
    for (std::span<const std::byte> rest = data; !rest.empty();) {
      const size_t n = std::min(rest.size(), random() % (longest + 1));
      hash.update(rest.first(n));
      rest = rest.subspan(n);
    }
    ASSERT_EQ(hex_of(hash.finish()), whole) << "seed " << seed << ", round " << round;
  }
}

TEST(Sha256, ThePathsAgreeOnRandomBytes) {
  if (!sha256_path_runs(Sha256Path::kShaNi))
    GTEST_SKIP() << "this processor lacks the SHA extensions";
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> data(random() % 3000);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    ASSERT_EQ(Sha256(Sha256Path::kPortable).update(data).finish(),
              Sha256(Sha256Path::kShaNi).update(data).finish())
        << "seed " << seed << ", round " << round;
    ASSERT_EQ(sha256(data), Sha256(Sha256Path::kPortable).update(data).finish());
  }
}

}  // namespace
}  // namespace prefix
