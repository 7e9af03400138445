# Compiler settings for our own code, and mobicuda_add_box().
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)  # with CMAKE_UNITY_BUILD, all C++ files of a target as one
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

# What runs once for an engine, a file or a report need not be fast: a release takes a fifth to a third less to compile so.
function(mobicuda_optimise_less target option)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${option}>)
endfunction()

# Sets `variable` to an include directory with links to folders of the project, each given as the path that it is included by,
# "=", and the folder: "graph=engine/graph". Nothing else of the project can be included through it.
function(mobicuda_include_root variable name)
  set(root ${PROJECT_BINARY_DIR}/include_roots/${name})
  file(REMOVE_RECURSE ${root})
  foreach(entry IN LISTS ARGN)
    string(REPLACE "=" ";" entry ${entry})
    list(GET entry 0 path)
    list(GET entry 1 folder)
    cmake_path(GET path PARENT_PATH parent)
    file(MAKE_DIRECTORY ${root}/${parent})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${path} SYMBOLIC)
  endforeach()
  set(${variable} ${root} PARENT_SCOPE)
endfunction()

# A box of docs/architecture.md: an object library that sees only the boxes it names.
#   mobicuda_add_box(NAME [HOT] SOURCES a.cpp ... USES other_box ... )
# USES gives include directories and definitions; the objects meet in mobicuda_library.cmake. PUBLIC_FOLDERS and
# PRIVATE_FOLDERS are what its files include by a path of the project: entries of mobicuda_include_root(). HOT: computes on
# the CPU.
function(mobicuda_add_box name)
  cmake_parse_arguments(BOX "HOT" "" "SOURCES;USES;PUBLIC_INCLUDE;PRIVATE_INCLUDE;PUBLIC_FOLDERS;PRIVATE_FOLDERS" ${ARGN})
  # For unity builds: GCC 12 crashes where a function of OpFunctions is called above its definition.
  set(operations ${BOX_SOURCES})
  list(FILTER operations INCLUDE REGEX "/ops/[^/]*$")
  list(FILTER BOX_SOURCES EXCLUDE REGEX "/ops/[^/]*$")
  list(PREPEND BOX_SOURCES ${operations})
  # Since 3.31 CMake would join kernels as well: one core would compile them all.
  set(cuda_sources ${BOX_SOURCES})
  list(FILTER cuda_sources INCLUDE REGEX "[.]cu$")
  set_source_files_properties(${cuda_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(${name} OBJECT ${BOX_SOURCES})
  if(BOX_PUBLIC_FOLDERS)
    mobicuda_include_root(root ${name} ${BOX_PUBLIC_FOLDERS})
    list(APPEND BOX_PUBLIC_INCLUDE ${root})
  endif()
  if(BOX_PRIVATE_FOLDERS)
    mobicuda_include_root(root ${name}_private ${BOX_PRIVATE_FOLDERS})
    list(APPEND BOX_PRIVATE_INCLUDE ${root})
  endif()
  target_include_directories(${name} PUBLIC ${BOX_PUBLIC_INCLUDE} PRIVATE ${BOX_PRIVATE_INCLUDE})
  target_link_libraries(${name} PRIVATE mobicuda_warnings)
  if(NOT BOX_HOT)
    mobicuda_optimise_less(${name} -O2)
  endif()
  foreach(used IN LISTS BOX_USES)
    target_include_directories(${name} PUBLIC $<TARGET_PROPERTY:${used},INTERFACE_INCLUDE_DIRECTORIES>)
    target_compile_definitions(${name} PUBLIC $<TARGET_PROPERTY:${used},INTERFACE_COMPILE_DEFINITIONS>)
  endforeach()
endfunction()
