# libmobicuda and libmobicuda_cudnn, each static and shared, out of the boxes' objects.
set(mobicuda_boxes mobicuda_graph mobicuda_timing mobicuda_wire_format mobicuda_onnx mobicuda_plan_file mobicuda_cpu
                   mobicuda_custom mobicuda_version mobicuda_c_api)
if(MOBICUDA_HAS_CUDA)
  list(APPEND mobicuda_boxes mobicuda_specialise mobicuda_choose mobicuda_runtime mobicuda_kernels mobicuda_kernels_sm90a)
endif()

find_package(Threads REQUIRED)
find_package(Protobuf 3.12 MODULE REQUIRED)  # here, so that its targets are those of every folder

# Both kinds, or the one that BUILD_SHARED_LIBS names. The other is still there for the project's own programs and tests.
set(MOBICUDA_SHARED ON)
set(MOBICUDA_STATIC ON)
if(DEFINED BUILD_SHARED_LIBS)
  if(BUILD_SHARED_LIBS)
    set(MOBICUDA_STATIC OFF)
  else()
    set(MOBICUDA_SHARED OFF)
  endif()
endif()

# 0.2 may break what 0.1 promised, as the CMake package says too.
set(mobicuda_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

configure_file(cmake/exports.map.in ${CMAKE_CURRENT_BINARY_DIR}/exports.map @ONLY)
function(mobicuda_limit_exports target)
  set(map ${PROJECT_BINARY_DIR}/exports.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

function(mobicuda_define_library target type)
  add_library(${target} ${type})
  foreach(box IN LISTS mobicuda_boxes)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${box}>)
  endforeach()
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/onnx_import/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/plan_file/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/c_api/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/version/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/baselines/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  if(type STREQUAL STATIC)
    target_link_libraries(${target} PRIVATE protobuf::libprotobuf-lite)  # its package finds it again
  else()
    target_link_libraries(${target} PRIVATE ${MOBICUDA_PROTOBUF_LITE})  # a file, of which the package says nothing
  endif()
  if(MOBICUDA_HAS_CUDA)
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME mobicuda VERSION ${PROJECT_VERSION} SOVERSION ${mobicuda_soversion}
                                             LINKER_LANGUAGE CXX)
endfunction()

mobicuda_define_library(mobicuda SHARED)
mobicuda_define_library(mobicuda_static STATIC)
add_library(mobicuda::mobicuda_static ALIAS mobicuda_static)
if(MOBICUDA_SHARED)
  add_library(mobicuda::mobicuda ALIAS mobicuda)
else()
  add_library(mobicuda::mobicuda ALIAS mobicuda_static)
  set_target_properties(mobicuda PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
if(NOT MOBICUDA_STATIC)
  set_target_properties(mobicuda_static PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
mobicuda_limit_exports(mobicuda)
# Protobuf's symbols are not exported where it is a static library. Where it is a shared one, as in Debian, libmobicuda and its
# host share it, and a host that exports another version of it cannot be helped.
target_link_options(mobicuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)

if(MOBICUDA_HAS_CUDNN)
  foreach(kind SHARED STATIC)
    if(kind STREQUAL STATIC)
      set(target mobicuda_cudnn_static)
      set(base mobicuda_static)
    else()
      set(target mobicuda_cudnn)
      set(base mobicuda)
    endif()
    add_library(${target} ${kind} $<TARGET_OBJECTS:mobicuda_cudnn_backend>)
    target_link_libraries(${target} PUBLIC ${base} PRIVATE cudnn CUDA::cublas CUDA::cublasLt CUDA::cudart_static)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME mobicuda_cudnn VERSION ${PROJECT_VERSION} SOVERSION ${mobicuda_soversion}
                                               LINKER_LANGUAGE CXX)
    if(NOT MOBICUDA_${kind})
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    add_library(mobicuda::${target} ALIAS ${target})
  endforeach()
  mobicuda_limit_exports(mobicuda_cudnn)
endif()
