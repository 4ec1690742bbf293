# The messages of a format's files, from its .proto, in protobuf's own description of messages: graph.proto becomes
# graph_descriptor.py beside it. Python makes the classes of it, in every version of protobuf; code that protoc writes runs
# with some versions only.
set(messages_folder "${PROJECT_BINARY_DIR}/messages")
file(MAKE_DIRECTORY "${messages_folder}")
add_custom_target(minnow_messages ALL)

foreach(source IN ITEMS tensorflow/graph caffe/caffe)
  get_filename_component(format "${source}" DIRECTORY)
  get_filename_component(name "${source}" NAME)
  set(folder "${PROJECT_SOURCE_DIR}/converter/${format}")
  set(made "${messages_folder}/${name}_descriptor.py")
  add_custom_command(
    OUTPUT "${made}"
    COMMAND "${MINNOW_PROTOC}" "--proto_path=${folder}" "--descriptor_set_out=${messages_folder}/${name}.binpb"
            "${folder}/${name}.proto"
    COMMAND "${CMAKE_COMMAND}" "-DFROM=${messages_folder}/${name}.binpb" "-DTO=${made}"
            -P "${CMAKE_CURRENT_LIST_DIR}/bytes_module.cmake"
    DEPENDS "${folder}/${name}.proto" "${CMAKE_CURRENT_LIST_DIR}/bytes_module.cmake"
    COMMENT "protoc ${name}.proto"
    VERBATIM)
  add_custom_target(minnow_messages_${name} DEPENDS "${made}")
  add_dependencies(minnow_messages minnow_messages_${name})
  install(FILES "${made}" COMPONENT python DESTINATION minnow/converter/${format})
endforeach()
