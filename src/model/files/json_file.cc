#include "model/files/json_file.h"

#include <string_view>
#include <utility>

#include "base/status.h"

namespace prefix {
namespace {

// Python writes Infinity for a float that JSON has no digits for. Here it becomes a text of the
// same length, so that places in messages stay.
std::string with_infinities(std::string text) {
  constexpr std::string_view kInfinity = "Infinity", kText = "\"+inf\"  ";
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.compare(i, kInfinity.size(), kInfinity) == 0) {
      text.replace(i, kText.size(), kText);
    }
  }
  return text;
}

}  // namespace

void naming(const InputFile& file, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& e) {
    fail(e.code(), file.name(), ": ", e.message());
  }
}

void with_json_text(const InputFile& file,
                    const std::function<void(const Json&, const std::string&)>& use,
                    const JsonLimits& limits) {
  naming(file, [&] {
    const std::string text = with_infinities(read_text(file, limits.bytes));
    const JsonDocument document(parse_json(text, "the file", limits));
    use(document.tree(), text);
  });
}

void with_json(const InputFile& file, const std::function<void(const Json&)>& use,
               const JsonLimits& limits) {
  with_json_text(file, [&](const Json& tree, const std::string&) { use(tree); }, limits);
}

}  // namespace prefix
