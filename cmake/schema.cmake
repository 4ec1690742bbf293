# mnn_generated.h, the C++ view of the file format, made from schema/mnn/mnn.fbs at build time.
set(schema_source "${PROJECT_SOURCE_DIR}/schema/mnn/mnn.fbs")
set(schema_folder "${PROJECT_BINARY_DIR}/schema")

add_library(minnow_schema INTERFACE)
target_include_directories(minnow_schema SYSTEM INTERFACE "${schema_folder}")
target_link_libraries(minnow_schema INTERFACE flatbuffers_headers)

add_custom_command(
  OUTPUT "${schema_folder}/mnn_generated.h"
  COMMAND "${MINNOW_FLATC}" --cpp --scoped-enums --no-warnings -o "${schema_folder}" "${schema_source}"
  DEPENDS "${schema_source}"
  COMMENT "flatc mnn.fbs"
  VERBATIM)
add_custom_target(minnow_schema_header DEPENDS "${schema_folder}/mnn_generated.h")
add_dependencies(minnow_schema minnow_schema_header)

# names.h: the names of enumerators for messages, "number=name" one after the other. The tables that flatc writes have a
# pointer for each number up to the last, which the loader fills in: 30 kB instead of 4.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${schema_source}")
file(READ "${schema_source}" schema_text)
set(names "// Made by the build from mnn.fbs.\n#pragma once\n\nnamespace minnow::wire {\n\n")
foreach(enum IN ITEMS OpType DataType UnaryOpOperation BinaryOpOperation)
  if(NOT schema_text MATCHES "enum ${enum} : [a-z0-9]+ {([^}]*)}")
    message(FATAL_ERROR "No enum ${enum} in ${schema_source}")
  endif()
  string(REGEX MATCHALL "[A-Za-z0-9_]+ = [0-9]+" enumerators "${CMAKE_MATCH_1}")
  list(TRANSFORM enumerators REPLACE "(.*) = (.*)" "\n    \"\\2=\\1\\\\0\"")
  list(JOIN enumerators "" enumerators)
  string(APPEND names "constexpr char k${enum}Names[] =${enumerators};\n")
endforeach()
file(CONFIGURE OUTPUT "${schema_folder}/names.h" CONTENT "${names}\n}  // namespace minnow::wire\n" @ONLY)
