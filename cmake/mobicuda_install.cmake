# cmake --install: headers, libraries, mobicudaConfig.cmake, mobicuda.pc, bench_engine.
include(CMakePackageConfigHelpers)

install(DIRECTORY engine/include/mobicuda onnx_import/include/mobicuda plan_file/include/mobicuda baselines/include/mobicuda
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
        PATTERN cudnn_backend.h EXCLUDE PATTERN cuda_interop.h EXCLUDE)
set(installed_targets mobicuda mobicuda_static)
if(SKBUILD)  # a wheel has no links: one file, named as programs ask for it
  set(installed_targets mobicuda)
  set_target_properties(mobicuda PROPERTIES VERSION ${mobicuda_soversion})
  set(namelink NAMELINK_SKIP)
endif()
if(MOBICUDA_HAS_CUDA)
  install(FILES engine/include/mobicuda/cuda_interop.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mobicuda)
endif()
if(MOBICUDA_HAS_CUDNN)
  install(FILES baselines/include/mobicuda/cudnn_backend.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mobicuda)
  list(APPEND installed_targets mobicuda_cudnn)
endif()

install(TARGETS ${installed_targets} EXPORT mobicudaTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${namelink} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT mobicudaTargets NAMESPACE mobicuda:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mobicuda)
configure_package_config_file(cmake/mobicudaConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mobicuda)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/mobicudaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mobicuda)

set(MOBICUDA_PC_PRIVATE_LIBS "-lprotobuf-lite -lpthread -lstdc++")
if(MOBICUDA_HAS_CUDA)
  string(APPEND MOBICUDA_PC_PRIVATE_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
# From lib/pkgconfig (or lib/<triple>/pkgconfig) back to the prefix, so that the tree can be moved.
file(RELATIVE_PATH MOBICUDA_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/mobicuda.pc.in ${CMAKE_CURRENT_BINARY_DIR}/mobicuda.pc @ONLY)
if(NOT SKBUILD)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobicuda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET bench_engine)
  install(TARGETS bench_engine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
