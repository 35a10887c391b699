# Headers that most files include are read once: by the command and tests, and by all of a build with a sanitizer, which
# is a fifth of their time and more. The library itself is built without in other builds, which read them for eight files
# at a time (PREFIX_UNITY); so is everything with clang, which takes such a header only where all of its flags are the same.
#
#   prefix_precompile(target [header...])     makes the header, of these and those below
#   prefix_precompile_as(target made)         takes that of a target with the same flags
set(PREFIX_PRECOMPILED <algorithm> <atomic> <chrono> <cmath> <condition_variable> <cstring> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string>
  <thread> <unordered_map> <variant> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(PREFIX_PRECOMPILE ON)
  # g++ 12 takes the characters within a std::string for all of its memory and warns of copies behind them (GCC bug
  # 105651). Whether it does, and in which words, depends on the lengths of texts and of paths, and it warns more often
  # where the header is precompiled. The library is compiled with these warnings.
  set(PREFIX_PRECOMPILED_WARNINGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  # From 128 MiB on g++ looks for memory that it could free, and such a header is almost as large: a tenth of its time
  # and more, for 75 MiB. A cache of compilations keeps what it has by the flags that it had.
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
  endif()
else()
  set(PREFIX_PRECOMPILE OFF)
endif()

function(prefix_precompile target)
  if(PREFIX_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${PREFIX_PRECOMPILED} ${ARGN})
  endif()
endfunction()

function(prefix_precompile_as target made)
  if(PREFIX_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${made})
  endif()
endfunction()
