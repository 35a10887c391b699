#include "tree_read.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common.h"
#include "json_in.h"

namespace prefix_cli {
namespace {

using Json = nlohmann::json;

constexpr size_t kLabelTokens = 8;

// The first tokens of an edge, as text when there is a tokenizer.
std::string label(const Json& first, int64_t tokens, LazyText* text) {
  std::vector<int32_t> ids = first.get<std::vector<int32_t>>();
  if (ids.size() > kLabelTokens) ids.resize(kLabelTokens);
  const char* more = static_cast<int64_t>(ids.size()) < tokens ? " …" : "";
  if (text && text->get()) return cat("“", without_controls(text->get()->decode(ids)), "”", more);
  std::string list;
  for (const int32_t id : ids) list += cat(list.empty() ? "" : " ", id);
  return cat("[", list, more, "]");
}

// A number of a node of a cache; all of them fit into 32 bits in the library.
int64_t number(const Json& node, const char* key) {
  const Json& value = node.at(key);
  if (!value.is_number_integer() || value < -1 || value > std::numeric_limits<uint32_t>::max())
    fail("a node's ", shown(key), " is ", shown(value.dump(), 40), ", not a number from -1 to ",
         std::numeric_limits<uint32_t>::max());
  return value.get<int64_t>();
}

int64_t count(const Json& node, const char* key) { return std::max<int64_t>(0, number(node, key)); }

Bar cache_bar(const Json& node, int64_t parent) {
  Bar bar;
  bar.heading = parent < 0;
  bar.start = count(node, "start");
  bar.tokens = count(node, "tokens");
  bar.pending = std::max<int64_t>(0, bar.tokens - count(node, "computed"));
  bar.held = count(node, "held");
  bar.uses = count(node, "uses");
  if (bar.heading) bar.label = without_controls(node.at("namespace").get<std::string>());
  return bar;
}

// Nodes come in any order: sorted here so that a parent stands before its children.
Tree cache_tree(const Json& json) {
  const Json& nodes = json.at("nodes");
  std::unordered_map<int64_t, std::vector<size_t>> children;  // by number of the parent
  std::vector<size_t> open;                                   // places in `nodes`
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int64_t parent = number(nodes[i], "parent");
    (parent < 0 ? open : children[parent]).push_back(i);
  }
  Tree tree;
  tree.namespaces = static_cast<int64_t>(open.size());
  std::reverse(open.begin(), open.end());
  std::unordered_map<int64_t, int32_t> bars;  // by number of the node
  while (!open.empty()) {
    const Json& node = nodes[open.back()];
    open.pop_back();
    const int64_t id = number(node, "node");
    const int64_t parent = number(node, "parent");
    const auto index = static_cast<int32_t>(tree.bars.size());
    if (!bars.emplace(id, index).second) fail("there are two nodes ", id);
    Bar bar = cache_bar(node, parent);
    if (parent < 0) {
      tree.roots.push_back(index);
    } else {
      bar.parent = bars.at(parent);
      tree.bars[static_cast<size_t>(bar.parent)].children.push_back(index);
      ++tree.nodes;
    }
    tree.tokens += bar.tokens;
    tree.bars.push_back(std::move(bar));
    const auto below = children.find(id);
    if (below != children.end())
      open.insert(open.end(), below->second.rbegin(), below->second.rend());
  }
  if (tree.bars.size() != nodes.size())
    fail(nodes.size() - tree.bars.size(), " nodes are below no node without a parent");
  return tree;
}

}  // namespace

Tree read_plan(const std::string& json, LazyText* text) {
  const Json plan = Json::parse(json);
  Tree tree;
  tree.sequences = plan.at("requests");
  tree.given = plan.at("tokens_given");
  tree.computed = plan.at("tokens_distinct");
  tree.scored = plan.at("tokens_scored");
  for (const Json& node : plan.at("nodes")) {
    const auto index = static_cast<int32_t>(tree.bars.size());
    Bar bar;
    bar.parent = node.at("parent");
    bar.tokens = node.at("tokens");
    bar.ends = node.at("requests");
    bar.requests = node.at("below");
    bar.label = label(node.at("first"), bar.tokens, text);
    if (bar.parent >= index)
      fail("the plan of the library has node ", index, " before its parent ", bar.parent);
    (bar.parent < 0 ? tree.roots : tree.bars[static_cast<size_t>(bar.parent)].children)
        .push_back(index);
    tree.bars.push_back(std::move(bar));
  }
  return tree;
}

Tree read_cache(const std::string& json) {
  if (json.starts_with(kByteOrderMark)) fail("it begins with a byte order mark");
  try {
    return cache_tree(Json::parse(json));
  } catch (const Json::parse_error& e) {
    fail("not JSON at byte ", wrong_byte(e.byte));
  } catch (const Json::exception&) {  // what it says are the parser's own words
    fail(
        "it is not what prefix_cache_tree_json gives: an object with nodes, each a list of fields");
  }
}

}  // namespace prefix_cli
