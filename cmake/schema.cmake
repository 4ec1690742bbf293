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
