# minnow.runtime._engine: the same engine as libminnow.so, linked into one Python module.
set(MINNOW_PYTHON_INCLUDE "" CACHE PATH "Headers of the Python to build for, if it is not the one that builds")
if(MINNOW_PYTHON_INCLUDE) # FindPython insists on headers of the interpreter that it finds, and of its version
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  file(STRINGS "${MINNOW_PYTHON_INCLUDE}/patchlevel.h" Python_VERSION REGEX "#define PY_VERSION ")
  string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" Python_VERSION "${Python_VERSION}")
  set(Python_INCLUDE_DIRS "${MINNOW_PYTHON_INCLUDE}")
  add_library(Python::Module INTERFACE IMPORTED)
  target_include_directories(Python::Module INTERFACE "${MINNOW_PYTHON_INCLUDE}")
  if(Python_VERSION VERSION_GREATER_EQUAL 3.12)
    set(SKBUILD_SABI_COMPONENT Development.SABIModule)
  endif()
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
endif()
# nanobind asks for this target before it uses the stable ABI. On Linux the component, which CMake has from 3.26 on, adds
# nothing to the headers of the module.
if(SKBUILD_SABI_COMPONENT AND NOT TARGET Python::SABIModule)
  add_library(Python::SABIModule INTERFACE IMPORTED)
endif()
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

nanobind_add_module(_engine NB_STATIC STABLE_ABI NB_SUPPRESS_WARNINGS runtime/binding.cpp runtime/binding_array.cpp
                    runtime/binding_contour.cpp runtime/binding_drawing.cpp runtime/binding_pixel.cpp
                    runtime/binding_run.cpp runtime/binding_vision.cpp)
foreach(library IN ITEMS nanobind-static nanobind-static-abi3)
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0) # as its nb_combined.cpp does
  endif()
endforeach()
target_link_libraries(_engine PRIVATE minnow_engine minnow_kernels)
target_link_options(_engine PRIVATE -Wl,--gc-sections)
if(MINNOW_SYSROOT) # see wheels/sysroot.cmake
  target_sources(_engine PRIVATE cmake/wheels/old_libm.cpp)
endif()
install(TARGETS _engine COMPONENT python LIBRARY DESTINATION minnow/runtime)

# `man mnnconvert`: below the prefix of the environment, where man looks for the pages of its programs.
file(GLOB manual_pages CONFIGURE_DEPENDS docs/man/*.1)
install(FILES ${manual_pages} COMPONENT python DESTINATION "${SKBUILD_DATA_DIR}/share/man/man1")
