# Programs that feed changed model files to the engine: ./dev fuzz. They need clang, whose libFuzzer looks at what code a
# file has reached.
option(MINNOW_FUZZ "Build the fuzz targets of tests/fuzz" OFF)
if(MINNOW_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MINNOW_FUZZ needs clang: cmake -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(minnow_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
