# A toolchain file: Linux on aarch64, compiled on another machine by Debian's g++-aarch64-linux-gnu. Programs of the
# build run here by qemu-user, where that is.
#
#   tools/build aarch64         the preset; build-aarch64/bin/prefix, build-aarch64/lib
#
# -DPREFIX_PROCESSOR=cortex-a72: the processor that qemu-user is, not the one with everything.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Debian's packages for the target put their files there and beside the machine's own.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(PREFIX_PROCESSOR max CACHE STRING "The processor that qemu-user is")
find_program(PREFIX_QEMU qemu-aarch64)
mark_as_advanced(PREFIX_QEMU)
if(PREFIX_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${PREFIX_QEMU} -L /usr/aarch64-linux-gnu -cpu ${PREFIX_PROCESSOR})
endif()
