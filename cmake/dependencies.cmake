# What the build needs from the system. Nothing is downloaded, and nothing of it is needed at run time: of FlatBuffers and
# Highway only headers are used.

find_program(MINNOW_FLATC flatc)
find_path(MINNOW_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
find_path(MINNOW_HIGHWAY_INCLUDE hwy/highway.h)
find_program(MINNOW_PROTOC protoc)

# Notes the Debian package of what a find_ command did not find, so that all of them are named at once.
macro(minnow_require variable what package)
  if(NOT ${variable})
    string(APPEND missing "\n  ${what}")
    string(APPEND missing_packages " ${package}")
  endif()
endmacro()

minnow_require(MINNOW_FLATC "flatc, the FlatBuffers compiler" flatbuffers-compiler)
minnow_require(MINNOW_FLATBUFFERS_INCLUDE "flatbuffers/flatbuffers.h" libflatbuffers-dev)
minnow_require(MINNOW_HIGHWAY_INCLUDE "hwy/highway.h" libhwy-dev)
if(SKBUILD) # the library needs no messages
  minnow_require(MINNOW_PROTOC "protoc, the compiler of protocol buffers" protobuf-compiler)
endif()
if(missing)
  message(FATAL_ERROR "Not found:${missing}\nOn Debian and Ubuntu:\n  apt-get install${missing_packages}")
endif()

add_library(flatbuffers_headers INTERFACE)
target_include_directories(flatbuffers_headers SYSTEM INTERFACE "${MINNOW_FLATBUFFERS_INCLUDE}")

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
