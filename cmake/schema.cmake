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

# tables.h: what each field of each table is, for verify.cpp. The functions that flatc writes for this are 28 kB.
string(REGEX REPLACE "//[^\n]*" "" plain "${schema_text}")
string(REGEX REPLACE "\\[([A-Za-z0-9_]+)\\]" "*\\1" plain "${plain}") # brackets and semicolons have a meaning in lists
string(REPLACE ";" "|" plain "${plain}")
foreach(type IN ITEMS 1:bool 1:int8 1:uint8 2:int16 2:uint16 4:int32 4:uint32 4:float32 8:int64)
  string(REGEX MATCH "(.):(.*)" type "${type}")
  set(kind_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
endforeach()
string(REGEX MATCHALL "enum [A-Za-z0-9_]+ : [a-z0-9]+" enums "${plain}")
foreach(enum IN LISTS enums)
  string(REGEX MATCH "enum (.*) : (.*)" enum "${enum}")
  set(kind_${CMAKE_MATCH_1} ${kind_${CMAKE_MATCH_2}})
endforeach()
set(kind_string kString)
if(NOT plain MATCHES "union ([A-Za-z]+) {([^}]*)}")
  message(FATAL_ERROR "No union in ${schema_source}")
endif()
set(kind_${CMAKE_MATCH_1} "1, kUnion") # its type has a field of its own
string(REGEX MATCHALL "[A-Za-z0-9_]+" union "${CMAKE_MATCH_2}")
list(TRANSFORM union PREPEND k)
list(JOIN union ", " union)
string(REGEX MATCHALL "table [A-Za-z0-9_]+ {[^}]*}" tables "${plain}")
foreach(table IN LISTS tables)
  string(REGEX MATCH "table ([A-Za-z0-9_]+)" name "${table}")
  list(APPEND table_names k${CMAKE_MATCH_1})
  set(kind_${CMAKE_MATCH_1} "kTable + k${CMAKE_MATCH_1}")
endforeach()
foreach(table IN LISTS tables)
  string(REGEX MATCHALL ": *[*]?[A-Za-z0-9_]+[^|]*" fields "${table}")
  set(kinds)
  foreach(field IN LISTS fields)
    string(REGEX MATCH ": *([*]?)([A-Za-z0-9_]+)" type "${field}")
    if(NOT kind_${CMAKE_MATCH_2})
      message(FATAL_ERROR "No type ${CMAKE_MATCH_2} in ${schema_source}")
    endif()
    set(kind "${kind_${CMAKE_MATCH_2}}")
    if(CMAKE_MATCH_1)
      set(kind "kVector + ${kind}")
    endif()
    if(field MATCHES "\\(key\\)")
      set(kind "kNeeded + ${kind}")
    endif()
    list(APPEND kinds "${kind}")
  endforeach()
  list(APPEND kinds kEnd)
  list(JOIN kinds ", " kinds)
  list(APPEND rows "${kinds}")
endforeach()
list(JOIN table_names ", " table_names)
list(JOIN rows ",\n    " rows)
file(CONFIGURE OUTPUT "${schema_folder}/tables.h" @ONLY CONTENT "// Made by the build from mnn.fbs.
#pragma once

#include <cstdint>

namespace minnow::wire {

enum Table : uint16_t { @table_names@, kTables };

// What a field is: a number of 1, 2, 4 or 8 bytes, or one of these.
enum Kind : uint16_t { kEnd = 0, kString = 3, kUnion = 5, kTable = 16, kVector = 1024, kNeeded = 2048 };

// The fields of all tables.
constexpr uint16_t kFields[] = {
    @rows@};

// The tables of the numbers that a union's type can be, from 1.
constexpr uint16_t kUnionTables[] = {@union@};

}  // namespace minnow::wire
")
