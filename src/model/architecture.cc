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
  fail(Code::kUnsupportedModel, "model type ", quote(name), " is not supported (supported: ", list,
       ")");
}

}  // namespace prefix
