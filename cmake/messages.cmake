# minnow.converter.tensorflow.graph_descriptor: the messages of graph.proto in protobuf's own description of messages. Python
# makes the classes of it, in every version of protobuf; code that protoc writes runs with some versions only.
find_program(MINNOW_PROTOC protoc)
minnow_require(MINNOW_PROTOC "protoc, the compiler of protocol buffers," protobuf-compiler)

set(messages_source "${PROJECT_SOURCE_DIR}/converter/tensorflow/graph.proto")
set(messages_folder "${PROJECT_BINARY_DIR}/messages")
set(messages "${messages_folder}/graph_descriptor.py")
file(MAKE_DIRECTORY "${messages_folder}")

add_custom_command(
  OUTPUT "${messages}"
  COMMAND "${MINNOW_PROTOC}" "--proto_path=${PROJECT_SOURCE_DIR}/converter/tensorflow"
          "--descriptor_set_out=${messages_folder}/graph.binpb" "${messages_source}"
  COMMAND "${CMAKE_COMMAND}" "-DFROM=${messages_folder}/graph.binpb" "-DTO=${messages}"
          -P "${CMAKE_CURRENT_LIST_DIR}/bytes_module.cmake"
  DEPENDS "${messages_source}" "${CMAKE_CURRENT_LIST_DIR}/bytes_module.cmake"
  COMMENT "protoc graph.proto"
  VERBATIM)
add_custom_target(minnow_messages ALL DEPENDS "${messages}")
install(FILES "${messages}" COMPONENT python DESTINATION minnow/converter/tensorflow)
