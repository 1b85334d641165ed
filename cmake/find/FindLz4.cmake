# SPDX-License-Identifier: Apache-2.0
# Lz4::Lz4; Debian's package has a .pc file but no CMake config.
find_path(LZ4_INCLUDE_DIR lz4.h)
find_library(LZ4_LIBRARY lz4)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Lz4 REQUIRED_VARS LZ4_LIBRARY LZ4_INCLUDE_DIR)
if(Lz4_FOUND AND NOT TARGET Lz4::Lz4)
  add_library(Lz4::Lz4 UNKNOWN IMPORTED)
  set_target_properties(Lz4::Lz4 PROPERTIES IMPORTED_LOCATION "${LZ4_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${LZ4_INCLUDE_DIR}")
endif()
