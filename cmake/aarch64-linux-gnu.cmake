# Toolchain: 64-bit Arm Linux from another machine, with Debian's or Ubuntu's gcc-aarch64-linux-gnu; programs run under
# qemu-user. Libraries for the target (cJSON, cmocka) and DLPack's header come from SAMEBITS_AARCH64_ROOT, a folder with
# usr/include and usr/lib/aarch64-linux-gnu: `./dev call need_aarch64` fills the default one; / for packages of :arm64
# that are installed here.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(SAMEBITS_AARCH64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root CACHE PATH "Libraries of the target")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SAMEBITS_AARCH64_ROOT)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${SAMEBITS_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SAMEBITS_AARCH64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${SAMEBITS_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)

# `max` has every extension that qemu knows; SAMEBITS_AARCH64_CPU names another, such as cortex-a53, which has none.
set(SAMEBITS_AARCH64_CPU max CACHE STRING "The CPU that qemu-user plays")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${SAMEBITS_AARCH64_CPU} -L /usr/aarch64-linux-gnu)
