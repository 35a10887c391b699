// Pictures of the tree: all of it is in them or counted as folded, a picture has a limit whatever
// the tree is like, and what names a namespace may be anything.
#include "engine/tree_text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "random_tree.h"
#include "snapshot_support.h"
#include "tree/tree_editor.h"

namespace prefix {
namespace {

using namespace testing_support;
using Roots = std::vector<std::pair<NodeId, std::string>>;

// What keeps the text from being XML; empty: it is. Knows elements, attributes, text and the
// entities that we write.
std::string xml_error(std::string_view text) {
  std::vector<std::string> open;
  size_t at = 0;
  const auto text_error = [](std::string_view piece) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto byte = static_cast<unsigned char>(piece[i]);
      if (piece[i] == '<' || (byte < 0x20 && piece[i] != '\n')) return true;
      if (piece[i] != '&') continue;
      const std::string_view rest = piece.substr(i);
      bool known = false;
      for (const char* entity : {"&lt;", "&gt;", "&amp;", "&quot;"})
        known = known || rest.starts_with(entity);
      if (!known) return true;
    }
    return false;
  };
  while (at < text.size()) {
    const size_t begin = text.find('<', at);
    if (text_error(text.substr(at, begin - at))) return cat("text at ", at);
    if (begin == std::string_view::npos) break;
    const size_t end = text.find('>', begin);
    if (end == std::string_view::npos) return cat("a tag at ", begin, " has no end");
    std::string_view tag = text.substr(begin + 1, end - begin - 1);
    at = end + 1;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return cat("wrong end at ", begin);
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.remove_suffix(1);
    const size_t name = std::min(tag.find(' '), tag.size());
    if (!closed) open.emplace_back(tag.substr(0, name));
    for (tag.remove_prefix(name); !tag.empty();) {
      const size_t equals = tag.find("=\"");
      if (!tag.starts_with(' ') || equals == std::string_view::npos) return cat("tag at ", begin);
      const size_t quote = tag.find('"', equals + 2);
      if (quote == std::string_view::npos || text_error(tag.substr(equals + 2, quote - equals - 2)))
        return cat("attribute at ", begin);
      tag.remove_prefix(quote + 1);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

// That the boxes are the tree, and lie where they do not cover each other.
void check(const TreePicture& picture, const Tree& tree, size_t roots) {
  int64_t tokens = 0, nodes = 0;
  int32_t rows = 0;
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    ASSERT_LT(box.parent, static_cast<int32_t>(i));
    ASSERT_GE(box.rows, 1);
    if (box.parent >= 0) {
      const PictureBox& above = picture.boxes[static_cast<size_t>(box.parent)];
      ASSERT_GE(box.row, above.row);
      ASSERT_LE(box.row + box.rows, above.row + above.rows);
      ASSERT_TRUE(above.parent < 0 || above.folded == 0);
    } else {
      ASSERT_EQ(box.row, rows);
      rows += box.rows;
    }
    if (box.parent < 0 && box.folded == 0) continue;  // of which the boxes to its right are
    tokens += box.tokens;
    nodes += std::max<int64_t>(1, box.folded);
  }
  EXPECT_EQ(rows, picture.rows);
  EXPECT_LE(picture.rows, 120);
  EXPECT_EQ(tokens, tree.token_count());
  EXPECT_EQ(picture.tokens, tree.token_count());
  EXPECT_EQ(nodes, picture.nodes);
  EXPECT_EQ(nodes, static_cast<int64_t>(tree.node_count() - roots));
  const std::string svg = tree_svg(picture), dot = tree_dot(picture);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.size() + dot.size(), size_t{4} << 20);
  EXPECT_TRUE(dot.starts_with("digraph") && dot.ends_with("}\n"));
}

TEST(TreeText, TheCheckOfTheTestFindsWhatIsWrong) {
  EXPECT_EQ(xml_error("<a b=\"c\"><d/>x &lt; y</a>\n"), "");
  for (const char* bad : {"<a>", "</a>", "<a></b>", "<a>&</a>", "<a>&x;</a>", "<a b=\"<\"/>",
                          "<a b=c/>", "<a>\x01</a>", "<a b=\"c/>"})
    EXPECT_NE(xml_error(bad), "") << bad;
}

TEST(TreeText, EveryTreeIsThereOrCounted) {
  SmallCache cache(400);
  RandomTree random(cache, 91);
  const Roots roots = {{cache.root, "one"}, {cache.other_root, "two"}};
  size_t most = 0;
  for (int i = 0; i < cases(6000); ++i) {
    random.step();
    const TreePicture picture = picture_of(cache.tree, roots);
    most = std::max(most, picture.boxes.size());
    check(picture, cache.tree, 2);
    if (testing::Test::HasFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(most, 10u);
}

struct BigTree : testing::Test {
  BigTree() { root = tree.add_root(); }
  NodeId leaf(NodeId parent, int32_t token, size_t length = 1) {
    const std::vector<int32_t> tokens(length, token);
    return TreeEditor(tree).add_leaf(parent, tokens, 1, 0);
  }
  // Bounded however long it takes on this machine, which is told.
  void draw(const char* what, const Roots& roots) {
    const auto start = std::chrono::steady_clock::now();
    const TreePicture picture = picture_of(tree, roots);
    const std::string svg = tree_svg(picture);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    std::printf("%s: %zu boxes, %zu bytes, %.1f ms\n", what, picture.boxes.size(), svg.size(),
                ms.count());
    EXPECT_LE(picture.boxes.size(), 120u * 50);
    check(picture, tree, roots.size());
  }

  PagePool pool{1 << 20};
  Tree tree{pool};
  NodeId root;
};

TEST_F(BigTree, AChain) {
  NodeId at = root;
  for (int32_t i = 0; i < 20000; ++i) at = leaf(at, 1 + i % 2);
  draw("a chain of 20,000", {{root, "chain"}});
}

TEST_F(BigTree, AFan) {
  for (int32_t i = 0; i < 20000; ++i) leaf(root, i, 1 + static_cast<size_t>(i % 50));
  draw("a fan of 20,000", {{root, "fan"}});
}

TEST_F(BigTree, AComb) {
  NodeId at = root;
  for (int32_t i = 0; i < 10000; ++i) {
    leaf(at, 5);
    at = leaf(at, 1 + i % 2);
  }
  draw("a comb of 10,000 teeth", {{root, "comb"}});
}

TEST_F(BigTree, AThicket) {
  std::vector<NodeId> level{root};
  for (int depth = 0; depth < 9; ++depth) {
    std::vector<NodeId> next;
    for (const NodeId parent : level)
      for (int32_t token = 0; token < 3; ++token) next.push_back(leaf(parent, token));
    level = std::move(next);
  }
  draw("three branches everywhere", {{root, "thicket"}});
}

TEST_F(BigTree, ManyNamespaces) {
  Roots roots = {{root, "first"}};
  for (int32_t i = 1; i < 20000; ++i) {
    roots.emplace_back(tree.add_root(0, i), cat("namespace ", i));
    leaf(roots.back().first, 1, 1 + static_cast<size_t>(i % 70));
  }
  draw("20,000 namespaces", roots);
  const TreePicture picture = picture_of(tree, roots);
  EXPECT_EQ(picture.boxes.back().label, "+ 19881 namespaces");
  EXPECT_EQ(picture.boxes[1].tokens, 70) << "the largest are drawn";
  roots.resize(120);
  EXPECT_EQ(picture_of(tree, roots).rows, 120);
}

TEST(TreeText, LabelsMayBeAnything) {
  EXPECT_EQ(namespace_label({}), "(default)");
  EXPECT_EQ(namespace_label({"tenant a", "adapter", "7"}), "tenant a / adapter / 7");
  EXPECT_EQ(namespace_label({""}), "");
  EXPECT_LT(namespace_label({std::string(1 << 20, 'x')}).size(), 100u);
  EXPECT_LT(namespace_label(NamespaceParts(1000, "x")).size(), 100u);
  const auto engine = open_engine(100);
  for (const NamespaceParts& parts :
       std::vector<NamespaceParts>{{},
                                   {"<script>alert(\"1\") & more</script>"},
                                   {"]]>", "&amp;"},
                                   {"a\\", "\"b\n"},
                                   {std::string("\x00\x01\xff\xc3", 4)},
                                   {"M\xc3\xbcnchen"},
                                   {std::string(5000, '<')}})
    run_all(*engine, {logits_of({1, 2, 3}, engine->open_namespace(parts))});
  const std::string svg = engine->tree_picture("svg"), dot = engine->tree_picture("dot");
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_NE(svg.find("&lt;script&gt;alert(&quot;1&quot;) &amp; more"), std::string::npos);
  EXPECT_NE(svg.find("M\xc3\xbcnchen"), std::string::npos);
  EXPECT_EQ(svg.find('\xff'), std::string::npos);
  // Each label is a string that ends where it should: an even number of quotes that are not
  // escaped.
  for (size_t line = 0; line < dot.size(); line = dot.find('\n', line) + 1) {
    int quotes = 0;
    for (size_t i = line; dot[i] != '\n'; ++i) {
      if (dot[i] == '\\') {
        ++i;
      } else {
        quotes += dot[i] == '"';
      }
    }
    EXPECT_EQ(quotes % 2, 0) << dot.substr(line, 100);
  }
}

}  // namespace
}  // namespace prefix
