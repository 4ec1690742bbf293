# For CMAKE_TOOLCHAIN_FILE: builds for 64-bit Arm with Debian's cross compiler (g++-aarch64-linux-gnu), and runs what was
# built under qemu (qemu-user-static). `./dev cross` does both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
# Debian's cross compilers look for libraries of their own, and share /usr/include: of FlatBuffers and Highway only
# headers are used, which are the same for every processor. Programs (flatc) are those of this machine.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
