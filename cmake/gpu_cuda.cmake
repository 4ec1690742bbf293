# nvcc, and object files by it. It is called as a program: CMake's own support for CUDA wants a toolkit that is installed as
# a whole, while the packages of PyPI (nvidia-cuda-nvcc, -crt, nvidia-nvvm, -cuda-runtime, -cuda-cccl) are enough.
set(MINNOW_CUDA_ARCHITECTURES 75 80 90a 100 120 CACHE STRING
  "Compute capabilities to compile for; newer ones run the portable code of the first")

option(MINNOW_CUDA_CHECK "Compile the CUDA kernels fast, into what runs slowly: to see whether they compile" OFF)

# CUDACXX, a toolkit, the packages of the Python that builds.
find_package(Python COMPONENTS Interpreter REQUIRED)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import nvidia.cu13 as m; print(list(m.__path__)[0])"
  OUTPUT_VARIABLE cuda_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(DEFINED ENV{CUDACXX})
  set(nvcc "$ENV{CUDACXX}" CACHE FILEPATH "The compiler of CUDA")
endif()
find_program(nvcc nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin "${cuda_packages}/bin" NO_CMAKE_FIND_ROOT_PATH)
if(NOT nvcc)
  return()
endif()

# Where it is, its headers and libraries are, too; a wrapper says where it takes them from.
get_filename_component(cuda_folder "${nvcc}" REALPATH)
get_filename_component(cuda_folder "${cuda_folder}" DIRECTORY)
find_path(cuda_include cuda_runtime_api.h
  HINTS "${cuda_folder}/../include" "${cuda_folder}/../targets/x86_64-linux/include" PATHS /usr/local/cuda/include
  NO_CMAKE_FIND_ROOT_PATH)
find_library(cuda_runtime NAMES cudart_static libcudart_static.a
  HINTS "${cuda_folder}/../lib64" "${cuda_folder}/../lib" PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib
  NO_CMAKE_FIND_ROOT_PATH)
if(NOT cuda_include OR NOT cuda_runtime)
  message(WARNING "nvcc is ${nvcc}, but cuda_runtime_api.h or libcudart_static.a was not found")
  unset(nvcc CACHE)
  set(nvcc "")
  return()
endif()

# Sets `objects` to the object files of the sources that follow.
function(minnow_cuda_objects objects)
  list(GET MINNOW_CUDA_ARCHITECTURES 0 oldest)
  set(code "")
  foreach(architecture IN LISTS MINNOW_CUDA_ARCHITECTURES)
    list(APPEND code "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(APPEND code "-gencode=arch=compute_${oldest},code=compute_${oldest}")
  set(optimization -O3 -DNDEBUG)
  if(MINNOW_CUDA_CHECK) # the compiler that makes machine code takes most of the time
    list(TRANSFORM MINNOW_CUDA_ARCHITECTURES REPLACE "(.+)" "-gencode=arch=compute_\\1,code=compute_\\1" OUTPUT_VARIABLE code)
    set(optimization -O0 -Xcicc=-O0)
  endif()
  separate_arguments(host_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  list(APPEND host_flags -fPIC -fvisibility=hidden)
  if(CMAKE_SYSROOT)
    list(APPEND host_flags --sysroot=${CMAKE_SYSROOT})
  endif()
  list(TRANSFORM host_flags PREPEND "-Xcompiler=")
  set(warnings "$<FILTER:$<TARGET_PROPERTY:minnow_flags,INTERFACE_COMPILE_OPTIONS>,EXCLUDE,^$>")
  set(made "")
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME)
    file(RELATIVE_PATH object "${PROJECT_SOURCE_DIR}" "${source}")
    if(object MATCHES "^(bench|tests)/")
      string(MAKE_C_IDENTIFIER "${object}" object) # there may be one of that name among the kernels
    else()
      set(object "${name}")
    endif()
    set(object "${PROJECT_BINARY_DIR}/cuda/${object}.o")
    # The portable texts say themselves where a product and a sum are one operation.
    set(contraction $<$<STREQUAL:${name},gpu_texts_cuda.cu>:--fmad=false>)
    add_custom_command(OUTPUT "${object}" DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM COMMAND_EXPAND_LISTS
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/cuda"
      COMMAND "${nvcc}" -ccbin "${CMAKE_CXX_COMPILER}" -std=c++17 ${optimization} ${code} --compress-mode=size ${contraction}
        ${host_flags} "-Xcompiler=$<JOIN:${warnings},$<SEMICOLON>-Xcompiler=>"
        -I "${PROJECT_SOURCE_DIR}" -MD -MT "${object}" -MF "${object}.d" -c "${source}" -o "${object}"
      COMMENT "CUDA ${name}")
    list(APPEND made "${object}")
  endforeach()
  set_source_files_properties(${made} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${objects} "${made}" PARENT_SCOPE)
endfunction()
