#include "cublaslt_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

// Empty when the file is a cuBLASLt that works.
std::string open_file(const std::string& name, CublasLtApi& api) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const text = dlerror();  // names the file
    return text ? text : name + ": no reason is known";
  }
  std::string why;
  const auto find = [&](auto*& function, const char* symbol) {
    void* const address = dlsym(library, symbol);
    std::memcpy(&function, &address, sizeof address);
    if (!address && why.empty()) why = cat(name, " has no function ", symbol);
  };
  find(api.version, "cublasLtGetVersion");
  find(api.create, "cublasLtCreate");
  find(api.destroy, "cublasLtDestroy");
  find(api.desc_create, "cublasLtMatmulDescCreate");
  find(api.desc_destroy, "cublasLtMatmulDescDestroy");
  find(api.desc_set, "cublasLtMatmulDescSetAttribute");
  find(api.layout_create, "cublasLtMatrixLayoutCreate");
  find(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(api.preference_create, "cublasLtMatmulPreferenceCreate");
  find(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(api.check, "cublasLtMatmulAlgoCheck");
  find(api.matmul, "cublasLtMatmul");
  if (why.empty()) {
    const size_t version = api.version();
    if (version >= cublaslt::kOldestVersion) return "";
    why = cat(name, " is version ", version / 10000, ".", version / 100 % 100,
              "; 13.0 is the oldest that works");
  }
  dlclose(library);
  return why;
}

}  // namespace

bool open_cublaslt(CublasLtApi& api, std::string& why) {
  // Not in a program that runs with more rights than its user has. A file that is named is the only
  // one that is tried.
  if (const char* const file = secure_getenv("LIBPREFIX_CUBLASLT"); file && *file) {
    why = open_file(file, api);
    if (!why.empty()) why = cat("LIBPREFIX_CUBLASLT: ", why);
    return why.empty();
  }
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so"};
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = secure_getenv(variable); home && *home)
      names.push_back(std::string(home) + "/lib64/libcublasLt.so.13");
  names.push_back("/usr/local/cuda/lib64/libcublasLt.so.13");
  std::string reasons;
  for (const std::string& name : names) {
    const std::string reason = open_file(name, api);
    if (reason.empty()) return true;
    reasons += cat(reasons.empty() ? "" : "; ", reason);
  }
  why = cat("cannot open libcublasLt.so.13, a part of the CUDA toolkit (the environment's ",
            "LIBPREFIX_CUBLASLT can name the file): ", reasons);
  return false;
}

}  // namespace prefix::ops::gpu
