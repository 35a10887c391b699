# The installed tree: libraries, headers, recipes, the prefix command, and what finds them (CMake and
# pkg-config). Every path in it is relative, so the tree can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS prefix EXPORT prefixTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Plugins lie beside the library that opens them.
if(TARGET prefix_cuda)
  install(TARGETS prefix_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET prefix_redis)
  install(TARGETS prefix_redis LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT prefixTargets NAMESPACE prefix::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix)
install(FILES include/prefix.h include/prefix.hpp include/prefix_calls.hpp include/prefix_text.h include/prefix_text.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(PREFIX_HAS_TEXT OFF)
if(TARGET prefix_text)
  set(PREFIX_HAS_TEXT ON)
  get_target_property(text_library prefix_text IMPORTED_LOCATION)
  get_target_property(PREFIX_TEXT_SONAME prefix_text IMPORTED_SONAME)
  get_filename_component(text_folder ${text_library} DIRECTORY)
  install(FILES ${text_library} ${text_folder}/${PREFIX_TEXT_SONAME} ${text_folder}/libprefix_text.so
    DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY text/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/prefix)
endif()

configure_package_config_file(cmake/prefixConfig.cmake.in ${PROJECT_BINARY_DIR}/prefixConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/prefixConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/prefixConfig.cmake
  ${PROJECT_BINARY_DIR}/prefixConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/prefix)

# prefix=${pcfiledir}/../..: pkg-config finds the tree where it is now.
file(RELATIVE_PATH PREFIX_PC_ROOT /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PREFIX_PC_ROOT "${PREFIX_PC_ROOT}")
configure_file(cmake/prefix.pc.in ${PROJECT_BINARY_DIR}/prefix.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/prefix.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(PREFIX_HAS_TEXT)
  configure_file(cmake/prefix_text.pc.in ${PROJECT_BINARY_DIR}/prefix_text.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/prefix_text.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
