# prefix_plugin(NAME files...): libprefix_NAME.so, which libprefix.so opens at run time with
# open_plugin() (src/base/plugin.h). It holds its own copies of the files of the core that it needs,
# and exports only what is marked with PREFIX_PLUGIN_EXPORT.

# The headers with classes that both sides use. Host and plugin must agree on every byte of them.
set(PREFIX_PLUGIN_HEADERS base/log.h base/plugin.h base/status.h cache/page_key.h cache/store_plugin.h
  cache/tier.h cache/tier_queue.h ops/gpu/launch.h ops/gpu/runtime.h ops/logits.h)

set(text "")
foreach(header ${PREFIX_PLUGIN_HEADERS})
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/${header})
    file(SHA256 ${PROJECT_SOURCE_DIR}/src/${header} hash)
    string(APPEND text ${hash})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY
      CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${header})
  endif()
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 12 hash)
string(JOIN ", " stamp "libprefix ${PROJECT_VERSION}"
  "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" "${CMAKE_BUILD_TYPE}" ${PREFIX_SANITIZE} "${hash}")
set_property(GLOBAL PROPERTY PREFIX_PLUGIN_STAMP "${stamp}")

# prefix_stamp(TARGET file): gives one of the target's files the stamp.
function(prefix_stamp target file)
  get_property(stamp GLOBAL PROPERTY PREFIX_PLUGIN_STAMP)
  set_property(SOURCE ${file} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_DEFINITIONS
    "PREFIX_PLUGIN_STAMP=\"${stamp}\"")
endfunction()

function(prefix_plugin name)
  set(stamp ${PROJECT_SOURCE_DIR}/src/base/plugin_stamp.cc)
  add_library(prefix_${name} MODULE ${stamp} ${ARGN})
  prefix_stamp(prefix_${name} ${stamp})
  target_link_libraries(prefix_${name} PRIVATE prefix_flags)
  set(map ${CMAKE_CURRENT_BINARY_DIR}/prefix_${name}.map)
  file(WRITE ${map} "{\n  global: prefix_*;\n  local: *;\n};\n")
  target_link_options(prefix_${name} PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,ALL)
  if(NOT PREFIX_SANITIZE)  # whose functions the program brings
    target_link_options(prefix_${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
