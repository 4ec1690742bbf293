# minnow.runtime._engine: the same engine as libminnow.so, linked into one Python module.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

nanobind_add_module(_engine NB_STATIC NB_SUPPRESS_WARNINGS runtime/binding.cpp runtime/binding_array.cpp)
set_target_properties(nanobind-static PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0) # as its nb_combined.cpp does
target_link_libraries(_engine PRIVATE minnow_engine minnow_kernels)
target_link_options(_engine PRIVATE -Wl,--gc-sections)
install(TARGETS _engine COMPONENT python LIBRARY DESTINATION minnow/runtime)

# `man mnnconvert`: below the prefix of the environment, where man looks for the pages of its programs.
file(GLOB manual_pages CONFIGURE_DEPENDS docs/man/*.1)
install(FILES ${manual_pages} COMPONENT python DESTINATION "${SKBUILD_DATA_DIR}/share/man/man1")
