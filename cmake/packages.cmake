# Debian packages by CPack (`make packages`), one for each component of the installed tree:
#
#   libprefix1      what a program needs to run: the two libraries and the plugins
#   libprefix-dev   what it needs to be built: headers, CMake and pkg-config files, recipes, samples
#   prefix-tools    the prefix command
#
# They have the files of the build folder as they are. Debian looks into /usr/lib as into its folder
# for the architecture, so that the tree has one shape everywhere.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime development tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
# A package, and a folder in one, is open to every user, whatever umask this one has.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_PACKAGE_NAME prefix)
set(CPACK_PACKAGE_VENDOR libprefix)
set(CPACK_PACKAGE_CONTACT "libprefix maintainers <maintainers@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libprefix${PREFIX_ABI_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${PROJECT_DESCRIPTION} (shared libraries)
 What requests have in common at their beginning is computed once.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libprefix-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION} (development files)
 Headers for C and C++, CMake and pkg-config files, recipes, samples.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME prefix-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "${PROJECT_DESCRIPTION} (command)
 The prefix command runs requests, shows what they share, and measures.")

# The two others go with the library of their own release.
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_TOOLS_DEPENDS runtime)

# What the files were linked with, by name and version, where Debian's tool for that is. It looks for
# libprefix itself in the build folder.
find_program(PREFIX_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(PREFIX_SHLIBDEPS)
if(PREFIX_SHLIBDEPS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
endif()
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

# The licence where Debian looks for it, and those of what is linked; only packages have these files.
foreach(package runtime:libprefix${PREFIX_ABI_MAJOR} development:libprefix-dev tools:prefix-tools)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/THIRD-PARTY-NOTICES DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
# What is inside, where tools/debian_packages wrote it.
install(FILES ${PROJECT_BINARY_DIR}/libprefix.spdx.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libprefix${PREFIX_ABI_MAJOR} COMPONENT runtime OPTIONAL EXCLUDE_FROM_ALL)
include(CPack)
