# SPDX-License-Identifier: Apache-2.0
# find_package(weir) for the installed tree.
include(CMakePackageConfigHelpers)
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/weirConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/weirConfig.cmake" INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weirConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weirConfig.cmake" "${PROJECT_BINARY_DIR}/weirConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindConcurrentQueue.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindXxhash.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindLibcbor.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
