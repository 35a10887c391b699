# The installed tree: libraries, headers, recipes, the prefix command, and what finds them (CMake and
# pkg-config). Every path in it is relative, so the tree can be moved. Its three components are the
# packages of cmake/packages.cmake: runtime, development, tools.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS prefix EXPORT prefixTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET prefix_static)
  install(TARGETS prefix_static EXPORT prefixStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development OPTIONAL
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT prefixStaticTargets NAMESPACE prefix::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix COMPONENT development)
endif()
# Plugins lie beside the library that opens them; a build of some targets may have left them out.
foreach(plugin cuda redis)
  if(TARGET prefix_${plugin})
    install(TARGETS prefix_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime OPTIONAL)
  endif()
endforeach()
install(EXPORT prefixTargets NAMESPACE prefix::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix COMPONENT development)
install(FILES include/prefix.h include/prefix.hpp include/prefix_cache.hpp include/prefix_calls.hpp
  include/prefix_constraint.hpp include/prefix_job.hpp include/prefix_options.hpp
  include/prefix_system.hpp
  include/prefix_text.h include/prefix_text.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES LICENSE THIRD-PARTY-NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

set(PREFIX_HAS_TEXT OFF)
if(TARGET prefix_text)
  set(PREFIX_HAS_TEXT ON)
  get_target_property(text_library prefix_text IMPORTED_LOCATION)
  get_target_property(PREFIX_TEXT_SONAME prefix_text IMPORTED_SONAME)
  get_filename_component(text_folder ${text_library} DIRECTORY)
  install(FILES ${text_library} ${text_folder}/${PREFIX_TEXT_SONAME}
    DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  install(FILES ${text_folder}/libprefix_text.so DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(DIRECTORY text/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/prefix COMPONENT development)
endif()

configure_package_config_file(cmake/prefixConfig.cmake.in ${PROJECT_BINARY_DIR}/prefixConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/prefixConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/prefixConfig.cmake
  ${PROJECT_BINARY_DIR}/prefixConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix COMPONENT development)

# The same for whatever reads the Common Package Specification: @prefix@ is where its file lies, less cps_path.
set(prefix "@prefix@")
if(TARGET prefix_static)
  string(APPEND PREFIX_CPS_MORE [[,
    "prefix_static": {
      "type": "archive",
      "location": "@prefix@/@libdir@/libprefix.a",
      "includes": ["@prefix@/@includedir@"],
      "link_libraries": ["stdc++", "m", "dl", "pthread"]
    }]])
endif()
if(PREFIX_HAS_TEXT)
  string(APPEND PREFIX_CPS_MORE [[,
    "text": {
      "type": "dylib",
      "location": "@prefix@/@libdir@/libprefix_text.so",
      "includes": ["@prefix@/@includedir@"],
      "requires": [":prefix"]
    }]])
endif()
string(REPLACE "@libdir@" "${CMAKE_INSTALL_LIBDIR}" PREFIX_CPS_MORE "${PREFIX_CPS_MORE}")
string(REPLACE "@includedir@" "${CMAKE_INSTALL_INCLUDEDIR}" PREFIX_CPS_MORE "${PREFIX_CPS_MORE}")
configure_file(cmake/prefix.cps.in ${PROJECT_BINARY_DIR}/prefix.cps @ONLY)
unset(prefix)
install(FILES ${PROJECT_BINARY_DIR}/prefix.cps
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cps COMPONENT development)

# prefix=${pcfiledir}/../..: pkg-config finds the tree where it is now.
file(RELATIVE_PATH PREFIX_PC_ROOT /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PREFIX_PC_ROOT "${PREFIX_PC_ROOT}")
configure_file(cmake/prefix.pc.in ${PROJECT_BINARY_DIR}/prefix.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/prefix.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
if(PREFIX_HAS_TEXT)
  configure_file(cmake/prefix_text.pc.in ${PROJECT_BINARY_DIR}/prefix_text.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/prefix_text.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()
