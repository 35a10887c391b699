// Compiled into each plugin; PREFIX_PLUGIN_STAMP comes from cmake/plugin.cmake.
#include "base/plugin.h"

const char* prefix_plugin_stamp() { return PREFIX_PLUGIN_STAMP; }
