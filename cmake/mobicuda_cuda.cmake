# Decides what is built of the CUDA side. Sets MOBICUDA_HAS_CUDA and MOBICUDA_HAS_CUDNN.
include(CheckLanguage)

set(MOBICUDA_HAS_CUDA OFF)
set(MOBICUDA_HAS_CUDNN OFF)

if(NOT MOBICUDA_CUDA STREQUAL OFF)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0 REQUIRED)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(MOBICUDA_HAS_CUDA ON)
  elseif(MOBICUDA_CUDA STREQUAL ON)
    message(FATAL_ERROR "MOBICUDA_CUDA=ON, but no CUDA compiler: put nvcc on PATH or set CMAKE_CUDA_COMPILER")
  endif()
endif()

if(MOBICUDA_HAS_CUDA AND NOT MOBICUDA_CUDNN STREQUAL OFF)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{CUDNN_PATH}/include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
               HINTS ${CUDAToolkit_LIBRARY_DIR} $ENV{CUDNN_PATH}/lib)
  if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
    add_library(cudnn UNKNOWN IMPORTED)
    set_target_properties(cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                                           INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
    set(MOBICUDA_HAS_CUDNN ON)
  elseif(MOBICUDA_CUDNN STREQUAL ON)
    message(FATAL_ERROR "MOBICUDA_CUDNN=ON, but cudnn.h or libcudnn was not found: set CUDNN_PATH")
  endif()
elseif(MOBICUDA_CUDNN STREQUAL ON)
  message(FATAL_ERROR "MOBICUDA_CUDNN=ON needs CUDA")
endif()

message(STATUS "mobicuda: CUDA ${MOBICUDA_HAS_CUDA}, cuDNN ${MOBICUDA_HAS_CUDNN}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
