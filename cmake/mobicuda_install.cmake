# cmake --install: headers, libraries, mobicudaConfig.cmake, mobicuda.pc, bench_engine and its page of the manual. Components:
# runtime (what programs run with), cudnn (the baseline's library), pictures, development, tools; cmake/mobicuda_packages.cmake makes a
# package of each.
include(CMakePackageConfigHelpers)

set(install_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mobicuda)
install(DIRECTORY engine/include/mobicuda onnx_import/include/mobicuda plan_file/include/mobicuda baselines/include/mobicuda
                  c_api/include/mobicuda ${PROJECT_BINARY_DIR}/version/include/mobicuda
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN *.h
        PATTERN cudnn_backend.h EXCLUDE PATTERN cuda_interop.h EXCLUDE)
set(namelink NAMELINK_COMPONENT development)
if(SKBUILD)  # a wheel has no links: one file, named as programs ask for it
  set_target_properties(mobicuda PROPERTIES VERSION ${mobicuda_soversion})
  if(MOBICUDA_HAS_PICTURES)
    set_target_properties(mobicuda_pictures PROPERTIES VERSION ${mobicuda_soversion})
  endif()
  set(namelink NAMELINK_SKIP)
endif()
if(MOBICUDA_HAS_CUDA)
  install(FILES engine/include/mobicuda/cuda_interop.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mobicuda COMPONENT development)
endif()

if(MOBICUDA_SHARED)
  install(TARGETS mobicuda EXPORT mobicudaTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime ${namelink})
  if(MOBICUDA_HAS_CUDNN)
    install(TARGETS mobicuda_cudnn EXPORT mobicudaTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cudnn NAMELINK_COMPONENT development)
    install(FILES baselines/include/mobicuda/cudnn_backend.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mobicuda
            COMPONENT development)
  endif()
  install(EXPORT mobicudaTargets NAMESPACE mobicuda:: DESTINATION ${install_cmake_dir} COMPONENT development)
endif()
if(MOBICUDA_STATIC)  # in a file of its own: what it needs of others is for its users alone to have
  install(TARGETS mobicuda_static EXPORT mobicudaStaticTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT mobicudaStaticTargets NAMESPACE mobicuda:: DESTINATION ${install_cmake_dir} COMPONENT development)
endif()

if(MOBICUDA_HAS_PICTURES AND MOBICUDA_SHARED)  # the static one, which has libjpeg-turbo inside, is for the project's own programs
  install(DIRECTORY pictures/include/mobicuda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
          FILES_MATCHING PATTERN *.h)
  install(TARGETS mobicuda_pictures EXPORT mobicudaTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT pictures ${namelink})
endif()

configure_package_config_file(cmake/mobicudaConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfig.cmake
                              INSTALL_DESTINATION ${install_cmake_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfigVersion.cmake
        DESTINATION ${install_cmake_dir} COMPONENT development)

set(MOBICUDA_PC_PRIVATE_REQUIRES protobuf-lite)
set(MOBICUDA_PC_PRIVATE_LIBS "-lpthread -lstdc++ -lm")
if(MOBICUDA_HAS_CUDA)
  string(APPEND MOBICUDA_PC_PRIVATE_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
if(NOT MOBICUDA_SHARED)  # then every program needs them
  set(MOBICUDA_PC_REQUIRES ${MOBICUDA_PC_PRIVATE_REQUIRES})
  set(MOBICUDA_PC_LIBS " ${MOBICUDA_PC_PRIVATE_LIBS}")
  unset(MOBICUDA_PC_PRIVATE_REQUIRES)
  unset(MOBICUDA_PC_PRIVATE_LIBS)
endif()
# From lib/pkgconfig (or lib/<triple>/pkgconfig) back to the prefix, so that the tree can be moved.
file(RELATIVE_PATH MOBICUDA_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/mobicuda.pc.in ${CMAKE_CURRENT_BINARY_DIR}/mobicuda.pc @ONLY)
if(NOT SKBUILD)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobicuda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()
if(MOBICUDA_HAS_PICTURES AND MOBICUDA_SHARED AND NOT SKBUILD)
  configure_file(cmake/mobicuda_pictures.pc.in ${CMAKE_CURRENT_BINARY_DIR}/mobicuda_pictures.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobicuda_pictures.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endif()

if(TARGET bench_engine)
  install(TARGETS bench_engine mobicuda_stream RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    set(man_page ${PROJECT_BINARY_DIR}/man/bench_engine.1.gz)
    add_custom_command(OUTPUT ${man_page}
      COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/packaging/make_man_page.py $<TARGET_FILE:bench_engine> ${man_page}
      DEPENDS bench_engine ${PROJECT_SOURCE_DIR}/packaging/make_man_page.py
      COMMENT "Writing bench_engine's page of the manual" VERBATIM)
    add_custom_target(mobicuda_man ALL DEPENDS ${man_page})
    install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endif()
