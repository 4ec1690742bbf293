# The libraries of GPUs, libminnow_<kind>.so beside the engine's: MINNOW_OPENCL, MINNOW_VULKAN, MINNOW_CUDA. Each has the
# portable kernels of kernels/gpu for its API.
#
# AUTO builds one where what it needs is found: the headers of OpenCL; those of Vulkan, and glslc; nvcc.
set(choices "ON, OFF, or AUTO: if what it takes is found")
foreach(kind OPENCL VULKAN CUDA)
  set(MINNOW_${kind} OFF CACHE STRING "Build libminnow_${kind}: ${choices}")
  set_property(CACHE MINNOW_${kind} PROPERTY STRINGS ON OFF AUTO)
endforeach()

# Sets `found` to whether to build a kind; an error where it is ON and `path`, what it needs, was not found.
function(minnow_wants_gpu kind path what found)
  set(${found} FALSE PARENT_SCOPE)
  if(MINNOW_${kind} STREQUAL "ON" AND NOT path)
    message(FATAL_ERROR "MINNOW_${kind} is ON, but ${what} was not found")
  elseif((MINNOW_${kind} STREQUAL "ON" OR MINNOW_${kind} STREQUAL "AUTO") AND path)
    set(${found} TRUE PARENT_SCOPE)
  endif()
endfunction()

find_path(opencl_include CL/cl.h)
minnow_wants_gpu(OPENCL "${opencl_include}" "the header CL/cl.h (Debian: opencl-headers)" with_opencl)
find_path(vulkan_include vulkan/vulkan.h)
find_program(glslc glslc)
if(vulkan_include AND glslc)
  set(vulkan_found TRUE)
endif()
minnow_wants_gpu(VULKAN "${vulkan_found}" "vulkan/vulkan.h or glslc (Debian: libvulkan-dev, glslc)" with_vulkan)
if(NOT MINNOW_CUDA STREQUAL "OFF")
  include(gpu_cuda)
endif()
minnow_wants_gpu(CUDA "${nvcc}" "nvcc (CUDACXX=..., or pip install 'nvidia-cuda-nvcc' and what it needs)" with_cuda)
if(NOT with_opencl AND NOT with_vulkan AND NOT with_cuda)
  return()
endif()

find_package(Python COMPONENTS Interpreter REQUIRED)
set(gpu_maker_names gpu_texts.py gpu_text.py gpu_spirv.py cooperative_matrices.py)
file(GLOB gpu_texts CONFIGURE_DEPENDS kernels/gpu/text/*.gpu kernels/vulkan/text/*.gpu)
list(TRANSFORM gpu_maker_names PREPEND "${PROJECT_SOURCE_DIR}/cmake/" OUTPUT_VARIABLE gpu_makers)
file(GLOB gpu_text_includes CONFIGURE_DEPENDS kernels/gpu/text/*.inc kernels/vulkan/text/*.inc)

# Makes `output` of the texts, for one language.
function(minnow_gpu_texts language output)
  add_custom_command(OUTPUT "${output}" VERBATIM
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/gpu_texts.py" ${language} "${output}" ${gpu_texts}
      --glslc "${glslc}"
    DEPENDS ${gpu_makers} ${gpu_texts} ${gpu_text_includes}
    COMMENT "Kernel texts for ${language}")
endfunction()

# What all of them have: the portable kernels, the backend, and the parts of the engine that these use.
file(GLOB gpu_sources CONFIGURE_DEPENDS kernels/gpu/*.cpp kernels/gpu/*/*.cpp)
list(APPEND gpu_sources runtime/src/gpu/backend.cpp runtime/src/gpu/tuner.cpp runtime/src/gpu/weight_memory.cpp
  runtime/src/model/buffer.cpp)
foreach(core activation attention gate_function infer interrupt kernel_table movement op_spec packed region resize_axis
    quantized status tensor thread_pool window worker_placement)
  list(APPEND gpu_sources kernels/core/${core}.cpp)
endforeach()
set(gpu_info "${PROJECT_BINARY_DIR}/gpu_texts_info.cpp")
minnow_gpu_texts(info "${gpu_info}")
add_library(minnow_gpu OBJECT ${gpu_sources} "${gpu_info}")
target_compile_options(minnow_gpu PRIVATE -Os)
target_compile_definitions(minnow_gpu PRIVATE MINNOW_VERSION="${PROJECT_VERSION}")
target_link_libraries(minnow_gpu PUBLIC minnow_flags Threads::Threads)

# libminnow_<kind>.so, of the objects above and these sources.
function(minnow_gpu_library kind)
  add_library(minnow_${kind} MODULE ${ARGN} runtime/src/gpu/${kind}.cpp)
  target_compile_definitions(minnow_${kind} PRIVATE MINNOW_VERSION="${PROJECT_VERSION}")
  target_compile_options(minnow_${kind} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Os>)
  target_link_libraries(minnow_${kind} PRIVATE minnow_gpu minnow_flags ${CMAKE_DL_LIBS})
  if(NOT APPLE AND NOT MINNOW_SANITIZE)
    target_link_options(minnow_${kind} PRIVATE -Wl,--no-undefined)
  endif()
  if(SKBUILD)
    install(TARGETS minnow_${kind} COMPONENT python LIBRARY DESTINATION minnow/runtime)
  endif()
  install(TARGETS minnow_${kind} COMPONENT library LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

if(with_opencl)
  minnow_gpu_texts(opencl "${PROJECT_BINARY_DIR}/gpu_texts_opencl.cpp")
  file(GLOB opencl_sources CONFIGURE_DEPENDS kernels/opencl/*.cpp)
  minnow_gpu_library(opencl ${opencl_sources} "${PROJECT_BINARY_DIR}/gpu_texts_opencl.cpp")
  target_include_directories(minnow_opencl SYSTEM PRIVATE "${opencl_include}")
endif()

if(with_cuda)
  minnow_gpu_texts(cuda "${PROJECT_BINARY_DIR}/gpu_texts_cuda.cu")
  file(GLOB cuda_sources CONFIGURE_DEPENDS kernels/cuda/*.cpp kernels/cuda/*/*.cpp)
  file(GLOB cuda_files CONFIGURE_DEPENDS kernels/cuda/*.cu kernels/cuda/*/*.cu)
  minnow_cuda_objects(cuda_objects ${cuda_files} "${PROJECT_BINARY_DIR}/gpu_texts_cuda.cu")
  minnow_gpu_library(cuda ${cuda_sources} ${cuda_objects})
  target_include_directories(minnow_cuda SYSTEM PRIVATE "${cuda_include}")
  target_link_libraries(minnow_cuda PRIVATE "${cuda_runtime}" rt)
  target_link_options(minnow_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)

  # Programs that check and time the kernels on a GPU: target cuda_programs.
  add_library(minnow_cuda_kernels STATIC EXCLUDE_FROM_ALL ${cuda_objects})
  set_target_properties(minnow_cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
  add_custom_target(cuda_programs)
  file(GLOB cuda_programs CONFIGURE_DEPENDS tests/kernels/cuda/check_*.cpp bench/gpu/time_*.cpp)
  foreach(source IN LISTS cuda_programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(cuda_${name} EXCLUDE_FROM_ALL "${source}")
    target_include_directories(cuda_${name} SYSTEM PRIVATE "${cuda_include}")
    target_link_libraries(cuda_${name} PRIVATE minnow_cuda_kernels minnow_flags "${cuda_runtime}" ${CMAKE_DL_LIBS} rt
      Threads::Threads)
    add_dependencies(cuda_programs cuda_${name})
  endforeach()
  # Two of them have kernels of their own, and use what the host does for products.
  file(GLOB product_sources CONFIGURE_DEPENDS kernels/cuda/product/*.cpp)
  list(FILTER product_sources EXCLUDE REGEX "(_op|layer)\\.cpp$") # of the backend
  list(APPEND product_sources kernels/core/activation.cpp kernels/core/status.cpp)
  foreach(name IN ITEMS check time)
    set(source "${PROJECT_SOURCE_DIR}/tests/kernels/cuda/products.cu")
    if(name STREQUAL "time")
      set(source "${PROJECT_SOURCE_DIR}/bench/gpu/products.cu")
    endif()
    minnow_cuda_objects(object "${source}")
    add_executable(cuda_${name}_products EXCLUDE_FROM_ALL ${object} ${product_sources})
    set_target_properties(cuda_${name}_products PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(cuda_${name}_products SYSTEM PRIVATE "${cuda_include}")
    target_link_libraries(cuda_${name}_products PRIVATE minnow_cuda_kernels minnow_flags "${cuda_runtime}"
      ${CMAKE_DL_LIBS} rt Threads::Threads)
    add_dependencies(cuda_programs cuda_${name}_products)
  endforeach()
endif()

if(with_vulkan)
  minnow_gpu_texts(vulkan "${PROJECT_BINARY_DIR}/gpu_texts_vulkan.cpp")
  file(GLOB vulkan_sources CONFIGURE_DEPENDS kernels/vulkan/*.cpp)
  minnow_gpu_library(vulkan ${vulkan_sources} "${PROJECT_BINARY_DIR}/gpu_texts_vulkan.cpp")
  target_include_directories(minnow_vulkan SYSTEM PRIVATE "${vulkan_include}")
endif()
