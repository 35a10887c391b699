// Libraries of ours that are opened at run time, because what they need is not on every machine.
//
//   libprefix.so ──open_plugin("redis", ...)──> libprefix_redis.so ──> libhiredis
//
// A plugin is looked for beside the running library, then in the folder that the environment's
// LIBPREFIX_PLUGINS names, then where the system looks. The first file that is there is the one.
//
// Host and plugin share C++ classes, so they must come from one build: each holds a stamp with
// version, compiler, kind of build and a hash of the headers that both see, and a plugin with
// another stamp is refused (cmake/plugin.cmake). Nothing throws across the border: entry points
// return their errors.
#pragma once

#include <string>

namespace prefix {

// The address of the C function `entry` of libprefix_NAME.so, which stays open until the process
// ends. Throws kNotFound with the file and the reason.
void* open_plugin(const std::string& name, const char* entry);

}  // namespace prefix

// The border: the one function that each plugin exports besides its entry points, and how to export
// those. plugin_stamp.cc defines it.
#define PREFIX_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
PREFIX_PLUGIN_EXPORT const char* prefix_plugin_stamp();
