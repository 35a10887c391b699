// Adapters of an engine, by name.
#include "abi/entry.h"

using prefix::abi::engine_of;
using prefix::abi::guard;
using prefix::abi::path_in;
using prefix::abi::require;
using prefix::abi::text_in;

extern "C" {

prefix_status prefix_adapter_load(prefix_engine* engine, const char* name, size_t name_len,
                                  const char* path, size_t path_len, prefix_error* err) {
  return guard("prefix_adapter_load", err, [&] {
    const std::string called(text_in(name, name_len, "name"));
    const std::string where = path_in(path, path_len);
    engine_of(engine)->load_adapter(called, where);
  });
}

prefix_status prefix_adapter_load_source(prefix_engine* engine, const char* name, size_t name_len,
                                         prefix_source* source, prefix_error* err) {
  return guard("prefix_adapter_load_source", err, [&] {
    const std::string called(text_in(name, name_len, "name"));
    engine_of(engine)->load_adapter(called, prefix::abi::files_of(source));
  });
}

prefix_status prefix_adapter_unload(prefix_engine* engine, const char* name, size_t name_len,
                                    prefix_error* err) {
  return guard("prefix_adapter_unload", err, [&] {
    const std::string called(text_in(name, name_len, "name"));
    engine_of(engine)->unload_adapter(called);
  });
}

prefix_status prefix_adapter_namespace(prefix_engine* engine, int32_t ns, const char* name,
                                       size_t name_len, int32_t* adapter_ns, prefix_error* err) {
  return guard("prefix_adapter_namespace", err, [&] {
    require(adapter_ns, "adapter_ns");
    const std::string called(text_in(name, name_len, "name"));
    *adapter_ns = engine_of(engine)->adapter_namespace(ns, called);
  });
}

prefix_status prefix_adapters_json(const prefix_engine* engine, char* buf, size_t cap,
                                   size_t* needed, prefix_error* err) {
  return guard("prefix_adapters_json", err, [&] {
    prefix::abi::text_out(engine_of(engine)->adapters_json(), buf, cap, needed);
  });
}

}  // extern "C"
