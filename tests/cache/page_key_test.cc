#include "cache/page_key.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace prefix {
namespace {

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

PageKey root_of(const ModelFingerprint& model, const std::vector<std::string>& name_space) {
  const std::vector<std::string_view> parts(name_space.begin(), name_space.end());
  return root_key(model, parts);
}

// Written by tools/golden/page_keys.py, which shares no code with the library.
TEST(PageKey, MatchesPythonsHashlib) {
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/golden/page_keys.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const size_t page = golden.at("page_tokens").get<size_t>();
  ASSERT_GE(golden.at("cases").size(), 7u);
  for (const nlohmann::json& entry : golden.at("cases")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    ModelFingerprint model;
    const std::string fingerprint = from_hex(entry.at("fingerprint").get<std::string>());
    ASSERT_EQ(fingerprint.size(), model.size());
    std::copy(fingerprint.begin(), fingerprint.end(), model.begin());
    std::vector<std::string> name_space;
    for (const nlohmann::json& part : entry.at("namespace"))
      name_space.push_back(from_hex(part.get<std::string>()));
    PageKey key = root_of(model, name_space);
    EXPECT_EQ(key.hex(), entry.at("root").get<std::string>());
    const auto tokens = entry.at("tokens").get<std::vector<int32_t>>();
    std::vector<std::string> pages;
    for (size_t at = 0; at < tokens.size(); at += page) {
      key = page_key(key, std::span(tokens).subspan(at, std::min(page, tokens.size() - at)));
      pages.push_back(key.hex());
    }
    EXPECT_EQ(pages, entry.at("pages").get<std::vector<std::string>>());
    PageKey parent = root_of(model, name_space);
    const size_t full = tokens.size() / page * page;
    for (size_t at = 0; at < full; at += page)
      parent = page_key(parent, std::span(tokens).subspan(at, page));
    const auto states = entry.at("states").get<std::vector<std::string>>();
    for (size_t i = 0; i < states.size(); ++i)
      EXPECT_EQ(state_key(parent, std::span(tokens).subspan(full),
                          static_cast<int64_t>(tokens.size()), static_cast<int32_t>(i))
                    .hex(),
                states[i]);
    EXPECT_EQ(states.size(), 2u);
  }
}

// All ways to cut short texts into parts, empty ones included: tuples that read the same when they
// are joined. An engine that joins (salt, adapter) gives one tenant the pages of another.
TEST(PageKey, NoTwoNamespacesShareARoot) {
  const ModelFingerprint model{};
  std::map<PageKey, std::vector<std::string>> seen;
  const auto add = [&](const std::vector<std::string>& name_space) {
    const auto [entry, fresh] = seen.emplace(root_of(model, name_space), name_space);
    if (!fresh) {
      ASSERT_EQ(entry->second, name_space) << "different namespaces with the same key";
    }
  };
  const auto cut = [&](auto&& self, std::vector<std::string> head, std::string_view rest) -> void {
    std::vector<std::string> whole = head;
    whole.emplace_back(rest);
    add(whole);
    if (head.size() == 3) return;
    for (size_t n = 0; n <= rest.size(); ++n) {
      std::vector<std::string> longer = head;
      longer.emplace_back(rest.substr(0, n));
      self(self, longer, rest.substr(n));
    }
  };
  add({});
  for (const std::string_view text : {"", "a", "ab", "aaaa", "n\1aaaa", "nnnn", "tenant-1adapter7"})
    cut(cut, {}, text);
  // Parts that look like the fields of the format themselves.
  const std::string zeros(8, '\0');
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + std::string(7, '\0') + bytes;
  };
  cut(cut, {}, field('n', "ab") + field('n', ""));
  cut(cut, {}, field('N', zeros) + field('n', "a"));
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random() % 3);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    cut(cut, {}, text);
  }
  EXPECT_GT(seen.size(), 5000u);
}

TEST(PageKey, EveryInputChangesTheKey) {
  ModelFingerprint model{};
  std::set<PageKey> keys;
  const PageKey root = root_key(model, {});
  std::vector<int32_t> tokens(32);
  for (int32_t i = 0; i < 32; ++i) tokens[static_cast<size_t>(i)] = i;
  keys.insert(root);
  // A page that is not full has its own key at each length.
  for (size_t n = 1; n <= tokens.size(); ++n)
    keys.insert(page_key(root, std::span(tokens).first(n)));
  // Another token anywhere, another order, another parent.
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<int32_t> other = tokens;
    other[i] += 1 << 16;
    keys.insert(page_key(root, other));
  }
  std::vector<int32_t> swapped = tokens;
  std::swap(swapped[3], swapped[4]);
  keys.insert(page_key(root, swapped));
  keys.insert(page_key(page_key(root, tokens), tokens));
  for (size_t i = 0; i < model.size(); ++i) {
    model[i] = 1;
    keys.insert(root_key(model, {}));
    keys.insert(page_key(root_key(model, {}), tokens));
  }
  EXPECT_EQ(keys.size(), 1u + 32 + 32 + 1 + 1 + 64);
}

TEST(PageKey, HexIsLowerCaseInOrder) {
  PageKey key;
  key.bytes[0] = 0xab;
  key.bytes[31] = 0x01;
  EXPECT_EQ(key.hex(), "ab" + std::string(60, '0') + "01");
}

}  // namespace
}  // namespace prefix
