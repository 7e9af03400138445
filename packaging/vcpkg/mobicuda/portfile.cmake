# Port of the checkout that it lies in: vcpkg install mobicuda --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options FEATURES
  cuda  MOBICUDA_CUDA
  tools MOBICUDA_BUILD_BENCH)
# vcpkg sets BUILD_SHARED_LIBS by the triplet's linkage.
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${feature_options} -DMOBICUDA_CUDNN=OFF -DMOBICUDA_BUILD_TESTS=OFF -DMOBICUDA_INSTALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/mobicuda)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES bench_engine AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
# No licence is chosen: there is no text to install yet.
set(VCPKG_POLICY_SKIP_COPYRIGHT_CHECK enabled)
