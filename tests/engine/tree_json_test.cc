// The tree as JSON: every node is in it, below its parent, with its namespace; and what names a
// namespace may be anything.
#include "engine/tree_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "random_tree.h"
#include "snapshot_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using Json = nlohmann::json;

TEST(TreeJson, HasEveryNodeBelowItsParent) {
  SmallCache cache(400);
  RandomTree random(cache, 91);
  const Namespaces namespaces;
  for (int i = 0; i < cases(2000); ++i) {
    random.step();
    const Json json = Json::parse(tree_json(copy_tree(cache.tree, namespaces)));
    ASSERT_EQ(json.at("tokens"), cache.tree.token_count());
    ASSERT_EQ(json.at("nodes").size(), cache.tree.node_count());
    std::set<int64_t> numbers;
    for (const Json& node : json.at("nodes")) numbers.insert(node.at("node").get<int64_t>());
    ASSERT_EQ(numbers.size(), json.at("nodes").size());
    int64_t tokens = 0, roots = 0;
    for (const Json& node : json.at("nodes")) {
      const int64_t parent = node.at("parent");
      roots += parent == kNoNode;
      ASSERT_EQ(node.contains("namespace"), parent == kNoNode);
      ASSERT_TRUE(parent == kNoNode || numbers.count(parent) == 1);
      ASSERT_LE(node.at("computed"), node.at("tokens"));
      tokens += node.at("tokens").get<int64_t>();
    }
    ASSERT_EQ(tokens, cache.tree.token_count());
    ASSERT_EQ(roots, 2);
  }
}

TEST(TreeJson, NamesMayBeAnything) {
  EXPECT_EQ(namespace_label({}), "(default)");
  EXPECT_EQ(namespace_label({"tenant a", "adapter", "7"}), "tenant a / adapter / 7");
  EXPECT_EQ(namespace_label({""}), "");
  EXPECT_LT(namespace_label({std::string(1 << 20, 'x')}).size(), 100u);
  EXPECT_LT(namespace_label(NamespaceParts(1000, "x")).size(), 100u);
  const auto engine = open_engine(100);
  for (const NamespaceParts& parts :
       std::vector<NamespaceParts>{{},
                                   {"]]>", "&amp;"},
                                   {"a\\", "\"b\n"},
                                   {std::string("\x00\x01\xff\xc3", 4)},
                                   {"M\xc3\xbcnchen"},
                                   {std::string(5000, '<')}})
    run_all(*engine, {logits_of({1, 2, 3}, engine->open_namespace(parts))});
  std::set<std::string> names;
  const Json json = Json::parse(engine->tree_json());  // throws for what is no UTF-8
  for (const Json& node : json.at("nodes"))
    if (node.contains("namespace")) names.insert(node.at("namespace").get<std::string>());
  EXPECT_EQ(names.size(), 6u);
  EXPECT_EQ(names.count("(default)") + names.count("M\xc3\xbcnchen") + names.count("]]> / &amp;"),
            3u);
  for (const std::string& name : names)
    for (const char c : name) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << name;
}

}  // namespace
}  // namespace prefix
