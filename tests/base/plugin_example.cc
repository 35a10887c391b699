// A plugin for plugin_test.cc.
#include "base/plugin.h"

PREFIX_PLUGIN_EXPORT int prefix_test_answer();
int prefix_test_answer() { return 42; }
