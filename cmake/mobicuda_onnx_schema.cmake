# The ONNX file format as C++ classes in namespace mobicuda::onnx_schema, generated from the installed onnx.proto.
# The package is renamed so that a host program may have its own onnx.
#   MOBICUDA_PROTOBUF_LITE         what libmobicuda links
#   MOBICUDA_ONNX_SCHEMA_SOURCES   generated sources, compiled into the mobicuda_onnx box
#   mobicuda_onnx_schema_headers   for programs that write ONNX files: include <mobicuda_onnx.pb.h>

# Distributions' static archives are not position-independent enough for a shared library, hence the shared one;
# -DProtobuf_USE_STATIC_LIBS=ON where yours is.
find_package(Protobuf 3.12 MODULE REQUIRED)
set(MOBICUDA_PROTOBUF_LITE ${Protobuf_LITE_LIBRARY} CACHE INTERNAL "protobuf-lite, linked into libmobicuda")

execute_process(COMMAND python3 -c "import importlib.util; print(importlib.util.find_spec('onnx').origin)"
                OUTPUT_VARIABLE python_onnx ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(python_onnx)
  get_filename_component(python_onnx ${python_onnx} DIRECTORY)
endif()
find_file(MOBICUDA_ONNX_PROTO onnx.proto
          PATHS ${python_onnx} /usr/lib/python3/dist-packages/onnx
          PATH_SUFFIXES onnx
          DOC "onnx.proto of an installed ONNX package")
if(NOT MOBICUDA_ONNX_PROTO)
  message(FATAL_ERROR "onnx.proto not found: install libonnx-dev, pip install onnx, or set MOBICUDA_ONNX_PROTO")
endif()

set(schema_folder ${PROJECT_BINARY_DIR}/onnx_schema)
file(READ ${MOBICUDA_ONNX_PROTO} schema_text)
string(REGEX REPLACE "\npackage onnx;" "\npackage mobicuda.onnx_schema;" schema_text "${schema_text}")
file(CONFIGURE OUTPUT ${schema_folder}/mobicuda_onnx.proto CONTENT "@schema_text@" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MOBICUDA_ONNX_PROTO})

set(MOBICUDA_ONNX_SCHEMA_SOURCES ${schema_folder}/mobicuda_onnx.pb.cc)
add_custom_command(
  OUTPUT ${schema_folder}/mobicuda_onnx.pb.cc ${schema_folder}/mobicuda_onnx.pb.h
  COMMAND protobuf::protoc --cpp_out=lite:${schema_folder} --proto_path=${schema_folder} mobicuda_onnx.proto
  DEPENDS ${schema_folder}/mobicuda_onnx.proto
  COMMENT "Generating the ONNX schema"
  VERBATIM)
set_source_files_properties(${MOBICUDA_ONNX_SCHEMA_SOURCES} PROPERTIES COMPILE_OPTIONS -w)
add_custom_target(mobicuda_onnx_schema DEPENDS ${schema_folder}/mobicuda_onnx.pb.h)

add_library(mobicuda_onnx_schema_headers INTERFACE)
target_include_directories(mobicuda_onnx_schema_headers SYSTEM INTERFACE ${schema_folder} ${Protobuf_INCLUDE_DIRS})
add_dependencies(mobicuda_onnx_schema_headers mobicuda_onnx_schema)
