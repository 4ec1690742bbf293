# The compiler and its flags, in one interface library: minnow_flags.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(MINNOW_CCACHE ccache)
if(MINNOW_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MINNOW_CCACHE}")
endif()

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "No C++ compiler found. On Debian and Ubuntu: apt-get install g++")
endif()
enable_language(CXX)

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF) # gcc contracts a * b + c all the same: files whose answers depend on it have -ffp-contract=off
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_MINSIZEREL "-Os -DNDEBUG") # for phones: see what CMakeLists.txt exempts from it
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  # Phones have pages of 4 or 16 kB. Room for the 64 kB of some servers is up to as much of nothing in the file.
  set(CMAKE_SHARED_LINKER_FLAGS_MINSIZEREL "-Wl,-z,max-page-size=16384")
  string(APPEND CMAKE_CXX_FLAGS " -fomit-frame-pointer") # nobody walks the chain of frames that gcc keeps here
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Code is made when linking, and with it the records of what exceptions can leave. gcc leaves those of other functions
  # out only when it knows that there are exceptions, and does not have the assembler write the records.
  string(APPEND CMAKE_SHARED_LINKER_FLAGS_MINSIZEREL
    " -fexceptions -fno-unwind-tables -fno-asynchronous-unwind-tables -fno-dwarf2-cfi-asm")
  # All code in one part: what is the same in two parts is found in none.
  string(APPEND CMAKE_SHARED_LINKER_FLAGS_MINSIZEREL " -flto-partition=one")
  # What files with -O2 would take for themselves: gaps before functions, and registers that are saved one by one.
  string(APPEND CMAKE_CXX_FLAGS_MINSIZEREL " -fno-align-functions -fno-align-jumps -fno-shrink-wrap-separate")
endif()
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION_MINSIZEREL ON) # a tenth of the library is the same more than once
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Compilers that we do not know warn of what ours do not: that must not keep anybody from building a release.
set(checkout OFF)
if(EXISTS "${PROJECT_SOURCE_DIR}/tests") # the source distribution has none
  set(checkout ON)
endif()
option(MINNOW_WARNINGS_ARE_ERRORS "Stop at the compiler's warnings" ${checkout})

add_library(minnow_flags INTERFACE)
target_include_directories(minnow_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(minnow_flags INTERFACE
  -Wall -Wextra $<$<BOOL:${MINNOW_WARNINGS_ARE_ERRORS}>:-Werror> -ffunction-sections -fdata-sections
  # Nobody reads errno or the floating-point flags; NaN, infinity and signed zero keep their meaning.
  -fno-math-errno -fno-trapping-math
  # Records for unwinding are for the functions that an exception can leave: a tenth of the library is those of others.
  $<$<CONFIG:Release,MinSizeRel>:-fno-asynchronous-unwind-tables>
  $<$<AND:$<CONFIG:Release,MinSizeRel>,$<CXX_COMPILER_ID:GNU>>:-fno-dwarf2-cfi-asm>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  # Highway compiles for NEON with these instructions, which no kernel uses and no compiler chooses by itself: they need
  # not be there at run time. Without the flag gcc inlines no vector into what stands outside its pragmas.
  target_compile_options(minnow_flags INTERFACE -march=armv8-a+crypto)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc's scheduler before register allocation, which x86 goes without, moves loads up until sums of the large tiles
    # no longer fit in the registers: 7 of the 28 were read and written back in every step.
    target_compile_options(minnow_flags INTERFACE -fno-schedule-insns)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 and older warn inside their own AVX-512 headers (gcc bug 105593).
  target_compile_options(minnow_flags INTERFACE -Wno-maybe-uninitialized)
endif()

set(MINNOW_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")
if(MINNOW_SANITIZE)
  set(sanitizers -fsanitize=${MINNOW_SANITIZE} -fno-sanitize-recover=all)
  target_compile_options(minnow_flags INTERFACE ${sanitizers} -fno-omit-frame-pointer -g)
  target_link_options(minnow_flags INTERFACE ${sanitizers})
endif()
