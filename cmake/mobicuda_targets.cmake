# Compiler settings for our own code, and mobicuda_add_box().
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

option(MOBICUDA_WERROR "Treat warnings as errors, for compilers that the project is developed with" OFF)
add_library(mobicuda_warnings INTERFACE)
target_compile_options(mobicuda_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow>
  # GCC 12 reports std::string concatenations by mistake (GCC bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MOBICUDA_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${MOBICUDA_WERROR}>>:--Werror=all-warnings>)

# A box of docs/architecture.md: an object library that sees only the boxes it names.
#   mobicuda_add_box(NAME SOURCES a.cpp ... USES other_box ... )
# USES gives include directories and definitions; the objects meet in mobicuda_library.cmake.
function(mobicuda_add_box name)
  cmake_parse_arguments(BOX "" "" "SOURCES;USES;PUBLIC_INCLUDE;PRIVATE_INCLUDE" ${ARGN})
  add_library(${name} OBJECT ${BOX_SOURCES})
  target_include_directories(${name} PUBLIC ${BOX_PUBLIC_INCLUDE} PRIVATE ${BOX_PRIVATE_INCLUDE})
  target_link_libraries(${name} PRIVATE mobicuda_warnings)
  foreach(used IN LISTS BOX_USES)
    target_include_directories(${name} PUBLIC $<TARGET_PROPERTY:${used},INTERFACE_INCLUDE_DIRECTORIES>)
    target_compile_definitions(${name} PUBLIC $<TARGET_PROPERTY:${used},INTERFACE_COMPILE_DEFINITIONS>)
  endforeach()
endfunction()
