// Stop strings: the library stops at tokens, this finds the texts that end a generation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text.h"

namespace prefix_cli {

// Follows one generation. What it returns depends on the tokens alone and not on when they arrive.
class StopSearch {
 public:
  StopSearch(Text& text, std::vector<std::string> stops);
  // True once a stop string is complete; later tokens change nothing.
  bool push(int32_t token);
  // Behind the last token: what was held back is text, too.
  void finish();
  bool found() const { return found_; }
  // Tokens up to and with the one that completed the stop string, also where its text came later:
  // the bytes of a character are held back until another token follows.
  size_t tokens() const { return tokens_; }
  // The text in front of the stop string.
  const std::string& text() const { return text_; }

 private:
  bool look(const std::string& more);
  bool completes(size_t n) const;

  Text* decoder_;
  std::vector<std::string> stops_;
  std::unique_ptr<Text::Stream> stream_;
  std::vector<int32_t> seen_;
  std::string text_;
  size_t longest_ = 0;
  size_t tokens_ = 0;
  bool found_ = false;
};

}  // namespace prefix_cli
