#include "cudnn_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

std::string written(size_t version) {
  return cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Why this version is not used; empty when it is.
std::string refusal(size_t version) {
  if (version / 10000 != 9) return "; version 9 is needed";
  for (const size_t bad : {91000, 91001, 91400})
    if (version == bad) return ", whose fused attention is broken; another 9 is needed";
  return "";
}

// Empty when the file is a cuDNN that works.
std::string open_file(const std::string& name, CudnnApi& api) {
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
  find(api.version, "cudnnGetVersion");
  find(api.name_of, "cudnnGetErrorString");
  find(api.last_error, "cudnnGetLastErrorString");
  find(api.create, "cudnnCreate");
  find(api.destroy, "cudnnDestroy");
  find(api.set_stream, "cudnnSetStream");
  find(api.descriptor_create, "cudnnBackendCreateDescriptor");
  find(api.descriptor_destroy, "cudnnBackendDestroyDescriptor");
  find(api.set, "cudnnBackendSetAttribute");
  find(api.get, "cudnnBackendGetAttribute");
  find(api.finalize, "cudnnBackendFinalize");
  find(api.execute, "cudnnBackendExecute");
  if (why.empty()) {
    const size_t version = api.version();
    const std::string bad = refusal(version);
    if (bad.empty()) return "";
    why = cat(name, " is version ", written(version), bad);
  }
  dlclose(library);
  return why;
}

}  // namespace

bool open_cudnn(CudnnApi& api, std::string& why) {
  // Not in a program that runs with more rights than its user has. Who names a file means it: no
  // other one is taken in its place.
  if (const char* const file = secure_getenv("LIBPREFIX_CUDNN"); file && *file) {
    why = open_file(file, api);
    if (!why.empty()) why = cat("LIBPREFIX_CUDNN: ", why);
    return why.empty();
  }
  std::vector<std::string> names = {"libcudnn.so.9"};
  for (const char* const variable : {"CUDNN_HOME", "CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = secure_getenv(variable); home && *home)
      for (const char* const folder : {"/lib64/", "/lib/"})
        names.push_back(cat(home, folder, "libcudnn.so.9"));
  names.push_back("/usr/local/cuda/lib64/libcudnn.so.9");
  std::string reasons;
  for (const std::string& name : names) {
    const std::string reason = open_file(name, api);
    if (reason.empty()) return true;
    reasons += cat(reasons.empty() ? "" : "; ", reason);
  }
  why = cat("cannot open libcudnn.so.9 (the environment's LIBPREFIX_CUDNN can name the file): ",
            reasons);
  return false;
}

}  // namespace prefix::ops::gpu
