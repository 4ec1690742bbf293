# A slim build has the kernels of some ops, and the instruction sets of some processors only: those that given models and
# machines need. `./dev slim MODEL.mnn...` finds out which, and builds.
set(MINNOW_OPS "" CACHE FILEPATH "Slim build: a file that names the rows to keep, one a line (cmake/slim.py writes it)")
set(MINNOW_ISAS "" CACHE STRING "The instruction sets to compile for, such as avx2;avx512. Empty: all")

if(MINNOW_ISAS AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)")
  set(targets "")
  foreach(isa IN ITEMS sse4 avx2 avx512) # the least first: it is Highway's baseline
    if(isa IN_LIST MINNOW_ISAS)
      string(TOUPPER "HWY_${isa}" target)
      string(REPLACE HWY_AVX512 HWY_AVX3 target "${target}")
      list(APPEND targets "${target}")
    endif()
  endforeach()
  set(unknown ${MINNOW_ISAS})
  list(REMOVE_ITEM unknown sse4 avx2 avx512)
  if(unknown OR NOT targets)
    message(FATAL_ERROR "MINNOW_ISAS=${MINNOW_ISAS}: instruction sets are sse4, avx2 and avx512")
  endif()
  list(GET targets 0 baseline)
  list(JOIN targets "|" targets)
  target_compile_definitions(minnow_flags INTERFACE "MINNOW_X86_TARGETS=(${targets})" MINNOW_X86_BASELINE=${baseline})
  if(NOT "avx512" IN_LIST MINNOW_ISAS)
    target_compile_definitions(minnow_flags INTERFACE MINNOW_NO_AVX512)
  endif()
elseif(MINNOW_ISAS)
  message(FATAL_ERROR "MINNOW_ISAS is for x86-64. Other processors have one instruction set")
endif()

if(MINNOW_OPS)
  get_filename_component(rows_file "${MINNOW_OPS}" ABSOLUTE BASE_DIR "${CMAKE_BINARY_DIR}")
  if(NOT EXISTS "${rows_file}")
    message(FATAL_ERROR "MINNOW_OPS: there is no file ${rows_file}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${rows_file}")
  file(STRINGS "${rows_file}" rows REGEX "^[A-Za-z]")
  if(NOT rows)
    message(FATAL_ERROR "MINNOW_OPS: ${rows_file} names no op")
  endif()
  list(TRANSFORM rows REPLACE "(.+)" "\n    \"\\1\",")
  list(JOIN rows "" rows)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/slim/kept_rows.h" @ONLY CONTENT
"// Made by the build from the file that MINNOW_OPS names.
#pragma once

#include <string_view>

namespace minnow {

constexpr std::string_view kKeptRows[] = {@rows@
};

}  // namespace minnow
")
  target_include_directories(minnow_flags INTERFACE "${PROJECT_BINARY_DIR}/slim")
  # Functions and tables that only the rows left out refer to are no defects here.
  target_compile_definitions(minnow_flags INTERFACE MINNOW_SLIM)
  target_link_options(minnow_flags INTERFACE -s)
  target_compile_options(minnow_flags INTERFACE -Wno-unused-function -Wno-unused-variable -Wno-unused-const-variable)
endif()
