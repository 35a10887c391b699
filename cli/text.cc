#include "text.h"

#include <utility>

#include "common.h"

namespace prefix_cli {

std::unique_ptr<Text> Text::open(const std::string&) {
  fail(
      "text, messages and stop strings need libprefix_text.so.1, which this build does not have; "
      "requests with "
      "tokens work without it");
}

Text* LazyText::get() {
  if (!tried_) {
    tried_ = true;
    try {
      text_ = Text::open(model_);
    } catch (const std::exception& e) {
      why_ = e.what();
    }
  }
  return text_.get();
}

Text& LazyText::need() {
  if (!get()) throw Failure(why_);
  return *text_;
}

}  // namespace prefix_cli
