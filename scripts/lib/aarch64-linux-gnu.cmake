# For ARM64 from another processor: the distribution's cross compiler, libraries in MOBICUDA_SYSROOT, programs under QEMU.
# scripts/test_arm64 has all of them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(MOBICUDA_SYSROOT "" CACHE PATH "Root folder of a system for ARM64 with the libraries that are needed")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MOBICUDA_SYSROOT)
set(CMAKE_SYSROOT ${MOBICUDA_SYSROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${MOBICUDA_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)  # protoc runs here
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
