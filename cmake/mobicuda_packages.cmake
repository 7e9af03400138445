# cpack -G DEB: one package of each component that mobicuda_install.cmake fills. docs/packaging.md has how to make them.
set(MOBICUDA_PACKAGE_MAINTAINER "mobicuda maintainers <maintainers@mobicuda.invalid>" CACHE STRING
    "Maintainer field of the packages: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mobicuda)
set(CPACK_PACKAGE_CONTACT ${MOBICUDA_PACKAGE_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each component has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(library_package libmobicuda${mobicuda_soversion})
set(own_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(CPACK_COMPONENTS_ALL "")

# mobicuda_package(COMPONENT NAME name SECTION section DEPENDS text DESCRIPTION line ...): the first line of the description is its
# summary, "." parts paragraphs.
function(mobicuda_package component)
  cmake_parse_arguments(PACKAGE "" "NAME;SECTION;DEPENDS" "DESCRIPTION" ${ARGN})
  list(JOIN PACKAGE_DESCRIPTION "\n" description)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${PACKAGE_NAME} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${PACKAGE_SECTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${PACKAGE_DEPENDS}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  # For packages alone: a plain cmake --install leaves them out.
  foreach(file ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz)
    install(FILES ${file} DESTINATION share/doc/${PACKAGE_NAME} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
endfunction()

# New libraries are for the dynamic linker to know.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_CUDNN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)

if(MOBICUDA_SHARED)
  mobicuda_package(runtime NAME ${library_package} SECTION libs
    DESCRIPTION "CUDA inference engine for MobileNetV2 and its neighbours"
                "Reads ONNX files of image classifiers and runs them on hand-written"
                "CUDA kernels, or on the CPU."
                "." "This package has the shared library.")
  if(MOBICUDA_HAS_CUDNN)
    mobicuda_package(cudnn NAME libmobicuda-cudnn${mobicuda_soversion} SECTION libs
      DEPENDS "${library_package} (= ${own_version})"
      DESCRIPTION "CUDA inference engine for MobileNetV2: the cuDNN baseline"
                  "Runs the same networks by cuDNN and cuBLAS, which must be there, for"
                  "comparisons."
                  "." "This package has the shared library.")
    # cuDNN's and CUDA's libraries come from NVIDIA, not from packages that dpkg-shlibdeps would find.
    set(CPACK_DEBIAN_CUDNN_PACKAGE_SHLIBDEPS OFF)
  endif()
  set(development_depends "${library_package} (= ${own_version}), ")
  if(MOBICUDA_HAS_PICTURES)
    mobicuda_package(pictures NAME libmobicuda-pictures${mobicuda_soversion} SECTION libs
      DEPENDS "${library_package} (= ${own_version}), libturbojpeg0 | libturbojpeg, libc6, libstdc++6"
      DESCRIPTION "CUDA inference engine for MobileNetV2: pictures"
                  "Takes encoded pictures to class labels: decoding, resizing and the"
                  "network, on a GPU or the CPU."
                  "." "This package has the shared library.")
    # dpkg-shlibdeps knows the package's own libmobicuda only where that is installed.
    set(CPACK_DEBIAN_PICTURES_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_DEBIAN_PICTURES_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
    string(APPEND development_depends "libmobicuda-pictures${mobicuda_soversion} (= ${own_version}), ")
  endif()
endif()
# pkg-config asks for what the static library needs, also where nobody links it.
string(APPEND development_depends "libprotobuf-dev")
mobicuda_package(development NAME libmobicuda-dev SECTION libdevel DEPENDS ${development_depends}
  DESCRIPTION "CUDA inference engine for MobileNetV2: development files"
              "Reads ONNX files of image classifiers and runs them on hand-written"
              "CUDA kernels, or on the CPU."
              "." "This package has the headers for C++ and C, the static library, and"
              "what CMake and pkg-config ask for.")
if(TARGET bench_engine)
  mobicuda_package(tools NAME mobicuda-tools SECTION science
    DESCRIPTION "CUDA inference engine for MobileNetV2: bench_engine"
                "Measures and checks image classifiers in ONNX files: hand-written CUDA"
                "kernels, cuDNN and CPU side by side."
                "." "This package has the program, which needs no other package of mobicuda.")
endif()

string(TIMESTAMP MOBICUDA_COPYRIGHT_YEARS %Y UTC)
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packaging/debian/copyright.in ${PROJECT_BINARY_DIR}/debian/copyright @ONLY)
configure_file(packaging/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
find_program(MOBICUDA_GZIP gzip)
if(MOBICUDA_GZIP)
  execute_process(COMMAND ${MOBICUDA_GZIP} -9nc ${PROJECT_BINARY_DIR}/debian/changelog
                  OUTPUT_FILE ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz COMMAND_ERROR_IS_FATAL ANY)
  include(CPack)
endif()
