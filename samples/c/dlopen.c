/* dlopen - finds libprefix at run time and says clearly what is missing.
 *
 * A program that can do without the library, or that must start where it is not installed, loads it
 * like this. PREFIX_FUNCTIONS names every function, so the table below is complete and typed by the
 * header itself. */
#include <dlfcn.h>
#include <prefix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kHelp =
    "usage: dlopen [LIBRARY] [--json]\n"
    "\n"
    "Loads LIBRARY (default: libprefix.so.1, where the system looks for libraries) at run time "
    "and\n"
    "prints its version, what it was built with and the devices of this machine.\n"
    "\n"
    "  dlopen /usr/local/lib/libprefix.so.1\n";

/* A pointer for each function, under the function's own name. */
#define X(name) __typeof__(&(name)) name;
static struct {
  PREFIX_FUNCTIONS(X)
} lib;
#undef X

static void die(const char* message, const char* detail) {
  fprintf(stderr, "dlopen: %s%s\n", message, detail);
  exit(1);
}

/* ISO C has no cast from a data pointer to a function; POSIX lets the bytes be copied. */
static int resolve(void* handle, const char* name, void* function) {
  void* const symbol = dlsym(handle, name);
  memcpy(function, &symbol, sizeof(symbol));
  return symbol != NULL;
}

static void load(const char* path) {
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "dlopen: cannot load %s: %s\n", path, dlerror());
    fprintf(stderr,
            "dlopen: install libprefix, set LD_LIBRARY_PATH or give the path of the file\n");
    exit(1);
  }
  /* Before anything else: an older library may lack functions, and the reader should learn that. */
  if (!resolve(handle, "prefix_abi_version", &lib.prefix_abi_version))
    die("this is not libprefix, it has no prefix_abi_version: ", path);
  const int32_t found = lib.prefix_abi_version();
  if (found < PREFIX_ABI_VERSION) {
    fprintf(stderr, "dlopen: %s has ABI %d, this program needs at least %d: update libprefix\n",
            path, (int)found, PREFIX_ABI_VERSION);
    exit(1);
  }
#define X(name) \
  if (!resolve(handle, #name, &lib.name)) die("the library is damaged, it lacks ", #name);
  PREFIX_FUNCTIONS(X)
#undef X
  /* The library stays loaded until the program ends: its threads may still run. */
}

static void print_devices(int json) {
  const size_t n = lib.prefix_device_count();
  for (size_t i = 0; i < n; ++i) {
    prefix_error err = PREFIX_ERROR_INIT;
    prefix_device_details d = {0};
    d.struct_size = (int32_t)sizeof(d);
    if (lib.prefix_device_info(i, &d, &err) != PREFIX_OK) die("", err.message);
    if (json)
      printf("%s{\"kind\":\"%s\",\"level\":\"%s\",\"available\":%s,\"chosen\":%s,\"threads\":%d}",
             i ? "," : "", d.kind, d.level, d.available ? "true" : "false",
             d.chosen ? "true" : "false", (int)d.threads);
    else
      printf("  %s %-12s %s%s%s\n", d.kind, d.level, d.name,
             d.available ? "" : ", not available: ", d.reason);
  }
}

int main(int argc, char** argv) {
  const char* path = NULL;
  int json = 0;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) return fputs(kHelp, stdout), 0;
    if (strcmp(argv[i], "--json") == 0) {
      json = 1;
    } else if (argv[i][0] == '-' || path != NULL) {
      fprintf(stderr, "dlopen: unexpected argument %s; try --help\n", argv[i]);
      return 2;
    } else {
      path = argv[i];
    }
  }
  load(path ? path : "libprefix.so.1");

  const size_t features = lib.prefix_feature_count();
  if (json) {
    printf("{\"version\":\"%s\",\"abi\":%d,\"features\":[", lib.prefix_version_string(),
           (int)lib.prefix_abi_version());
    for (size_t i = 0; i < features; ++i)
      printf("%s\"%s\"", i ? "," : "", lib.prefix_feature_name(i));
    printf("],\"devices\":[");
    print_devices(json);
    printf("]}\n");
    return 0;
  }
  printf("%s\n\nfeatures:", lib.prefix_build_info());
  for (size_t i = 0; i < features; ++i) printf(" %s", lib.prefix_feature_name(i));
  printf("\n\ndevices:\n");
  print_devices(json);
  return 0;
}
