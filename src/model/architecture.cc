#include "model/architecture.h"

#include <string>

#include "base/quote.h"
#include "base/status.h"
#include "model/architectures/list.h"

namespace prefix {

std::span<const Architecture* const> architectures() {
  static const Architecture* const kAll[] = {&kLlama, &kQwen3, &kOlmo2, &kPhi3};
  return kAll;
}

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture* a : architectures()) {
    if (a->name == name) return *a;
    known += (known.empty() ? "" : ", ") + std::string(a->name);
  }
  fail(Code::kUnsupportedModel, "model type ", quote(name), " is not supported (supported: ", known,
       ")");
}

}  // namespace prefix
