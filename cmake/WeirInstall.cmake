# SPDX-License-Identifier: Apache-2.0
# Installs the files by which find_package(weir) finds the installed tree.
include(CMakePackageConfigHelpers)
install(EXPORT weirTargets NAMESPACE weir::
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/weirConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/weirConfig.cmake"
  INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weirConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
file(GLOB find_modules "${PROJECT_SOURCE_DIR}/cmake/find/Find*.cmake")
install(FILES "${PROJECT_BINARY_DIR}/weirConfig.cmake"
              "${PROJECT_BINARY_DIR}/weirConfigVersion.cmake" ${find_modules}
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
