#include "model/architecture.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// Zero before any static object is made.
constinit const ArchitectureEntry* first = nullptr;

// What is asked for often and needs what no layer here does; docs/adding-an-architecture.md has all
// of it. Names match to the end of a word: "gemma4" is "gemma4_text" too.
struct Lacking {
  std::string_view name, what;
};
constexpr Lacking kLacking[] = {
    {"gemma4",
     "some of its layers have heads of another size, read the keys and values of other layers, or "
     "add embeddings of their own"},
    {"gemma3n",
     "its layers carry several residuals, read the keys and values of other layers and add "
     "embeddings of their own"},
};

std::string why(std::string_view name) {
  for (const Lacking& one : kLacking)
    if (name == one.name || name.starts_with(std::string(one.name) + "_"))
      return ": " + std::string(one.what);
  return {};
}

}  // namespace

ArchitectureEntry::ArchitectureEntry(const Architecture& architecture)
    : architecture_(architecture), next_(first) {
  first = this;
}

const Architecture& find_architecture(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ArchitectureEntry* e = first; e; e = e->next_) {
    for (const std::string_view one :
         {e->architecture_.name, e->architecture_.aliases[0], e->architecture_.aliases[1]}) {
      if (one.empty()) continue;
      if (one == name) return e->architecture_;
      known.push_back(one);
    }
  }
  std::ranges::sort(known);
  std::string list;
  for (const std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
  fail(Code::kUnsupportedModel, "model type ", quote(name), " is not supported", why(name),
       " (supported: ", list, ")");
}

}  // namespace prefix
