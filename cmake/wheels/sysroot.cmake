# For CMAKE_TOOLCHAIN_FILE: builds with this machine's compiler for an older Linux on MINNOW_PROCESSOR. Its C library, its
# C++ library and its headers are in the folder MINNOW_SYSROOT, which `./dev wheels` fills. What is built here then needs
# nothing newer. The C++ library is linked into it: older systems have one that is too old for anybody.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MINNOW_SYSROOT MINNOW_PROCESSOR)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${MINNOW_PROCESSOR})
set(triple ${MINNOW_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_SYSROOT "${MINNOW_SYSROOT}")

set(root "${MINNOW_SYSROOT}/usr")
file(GLOB cxx_headers "${root}/include/c++/*")
file(GLOB triple_headers "${root}/include/${triple}/c++/*")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=include
  OUTPUT_VARIABLE gcc_headers OUTPUT_STRIP_TRAILING_WHITESPACE)
set(headers -nostdinc) # Debian's cross compilers look into folders of this machine before they look into a sysroot
foreach(folder IN LISTS cxx_headers triple_headers gcc_headers ITEMS "${root}/include/${triple}" "${root}/include")
  string(APPEND headers " -isystem ${folder}")
endforeach()
set(CMAKE_CXX_FLAGS_INIT "${headers}")

# The folder static has libstdc++.a and nothing else.
set(libraries "-B${root}/lib/${triple} -L${MINNOW_SYSROOT}/static -L${root}/lib/${triple} -L${MINNOW_SYSROOT}/lib/${triple}")
string(APPEND libraries " -static-libstdc++ -Wl,--exclude-libs,ALL")
foreach(kind IN ITEMS EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${libraries}")
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
