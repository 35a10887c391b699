#include "base/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// The folder of the library that this code is in, or of the program; empty when it is not known.
std::string own_folder() {
  static const char kHere = 0;
  Dl_info info;
  // A program that was found by PATH has a name that is no path.
  if (!dladdr(&kHere, &info) || !info.dli_fname || !std::strchr(info.dli_fname, '/')) return {};
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  if (!path) return {};
  const std::string_view text(path.get());
  return std::string(text.substr(0, text.rfind('/')));
}

std::string reason() {
  const PlainLocale locale;
  const char* const text = dlerror();
  return text ? text : "no reason is known";
}

}  // namespace

void* open_plugin(const std::string& name, const char* entry) {
  const std::string file = "libprefix_" + name + ".so";
  std::string found = file;  // without a slash: where the system looks
  std::string looked;
  // Not in a program that runs with more rights than its user has.
  const char* const variable = secure_getenv("LIBPREFIX_PLUGINS");
  for (const std::string& folder : {own_folder(), std::string(variable ? variable : "")}) {
    if (folder.empty()) continue;
    const std::string path = folder + "/" + file;
    if (access(path.c_str(), F_OK) == 0) {
      found = path;
      break;
    }
    looked += quote(folder, 4096) + ", ";
  }
  void* const library = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library && found == file)
    fail(Code::kNotFound, "cannot open ", file, ", looked for in ", looked,
         "and where the system looks (the environment's LIBPREFIX_PLUGINS can name a folder): ",
         reason());
  if (!library) fail(Code::kNotFound, "cannot open ", quote(found, 4096), ": ", reason());

  std::string wrong;
  using Stamp = const char*();
  auto* const stamp = reinterpret_cast<Stamp*>(dlsym(library, "prefix_plugin_stamp"));
  if (!stamp) {
    wrong = "it is no plugin of libprefix: " + reason();
  } else if (const std::string_view text = stamp(); text != PREFIX_PLUGIN_STAMP) {
    wrong = cat("it belongs to another build, ", quote(text, 200), "; this is \"",
                PREFIX_PLUGIN_STAMP, "\"");
  }
  void* const address = wrong.empty() ? dlsym(library, entry) : nullptr;
  if (address) return address;
  if (wrong.empty()) wrong = reason();
  dlclose(library);
  fail(Code::kNotFound, "cannot use ", quote(found, 4096), ": ", wrong);
}

}  // namespace prefix
