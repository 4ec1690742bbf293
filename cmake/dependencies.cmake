# What the build needs from the system. Nothing is downloaded, and nothing of it is needed at run time: of FlatBuffers and
# Highway only headers are used.

# Stops with the name of the Debian package when `variable` holds what a find_ command did not find.
function(minnow_require variable what package)
  if(NOT ${variable})
    message(FATAL_ERROR "${what} not found. On Debian and Ubuntu: apt-get install ${package}")
  endif()
endfunction()

find_program(MINNOW_FLATC flatc)
minnow_require(MINNOW_FLATC "flatc, the FlatBuffers compiler," flatbuffers-compiler)

find_path(MINNOW_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
minnow_require(MINNOW_FLATBUFFERS_INCLUDE "flatbuffers/flatbuffers.h" libflatbuffers-dev)
add_library(flatbuffers_headers INTERFACE)
target_include_directories(flatbuffers_headers SYSTEM INTERFACE "${MINNOW_FLATBUFFERS_INCLUDE}")

find_path(MINNOW_HIGHWAY_INCLUDE hwy/highway.h)
minnow_require(MINNOW_HIGHWAY_INCLUDE "hwy/highway.h" libhwy-dev)
file(STRINGS "${MINNOW_HIGHWAY_INCLUDE}/hwy/base.h" highway_major REGEX "#define HWY_MAJOR ")
if(NOT highway_major MATCHES "[1-9]")
  file(STRINGS "${MINNOW_HIGHWAY_INCLUDE}/hwy/highway.h" highway_major REGEX "#define HWY_MAJOR ")
endif()
if(NOT highway_major MATCHES "[1-9]")
  message(FATAL_ERROR "Highway in ${MINNOW_HIGHWAY_INCLUDE} is older than 1.0 (Debian 12, Ubuntu 24.04 and newer have it)")
endif()
add_library(highway_headers INTERFACE)
target_include_directories(highway_headers SYSTEM INTERFACE "${MINNOW_HIGHWAY_INCLUDE}")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
