// Painters of a tree that fold() has laid out.
#pragma once

#include <string>

#include "tree_model.h"
#include "tree_words.h"

namespace prefix_cli {

std::string svg_picture(const Tree& tree, const TreeWords& words);
std::string dot_picture(const Tree& tree, const TreeWords& words);  // of Graphviz
std::string text_picture(const Tree& tree, const TreeWords& words);

}  // namespace prefix_cli
