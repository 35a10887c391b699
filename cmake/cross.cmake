# What a build for another machine takes from this one, because it is the same everywhere: headers and sources. The folder
# of this machine's headers holds its C library's as well, so that a link leads to the one that is wanted.
# The target's own package of JSON comes first.
find_package(nlohmann_json 3.11 QUIET)
if(NOT nlohmann_json_FOUND)
  find_path(PREFIX_JSON_INCLUDE nlohmann/json.hpp NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(PREFIX_JSON_INCLUDE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
  file(CREATE_LINK ${PREFIX_JSON_INCLUDE}/nlohmann ${PROJECT_BINARY_DIR}/include/nlohmann SYMBOLIC)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/include)
endif()

# GoogleTest from its sources (Debian: libgtest-dev).
function(prefix_cross_googletest)
  find_path(PREFIX_GOOGLETEST googletest/CMakeLists.txt PATHS /usr/src/googletest NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(PREFIX_GOOGLETEST)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # or these two are asked for again
  add_subdirectory(${PREFIX_GOOGLETEST} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endfunction()
