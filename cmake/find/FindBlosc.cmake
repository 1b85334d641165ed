# SPDX-License-Identifier: Apache-2.0
# Blosc::Blosc; Debian's package has a .pc file but no CMake config.
find_path(BLOSC_INCLUDE_DIR blosc.h)
find_library(BLOSC_LIBRARY blosc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Blosc REQUIRED_VARS BLOSC_LIBRARY BLOSC_INCLUDE_DIR)
if(Blosc_FOUND AND NOT TARGET Blosc::Blosc)
  add_library(Blosc::Blosc UNKNOWN IMPORTED)
  set_target_properties(Blosc::Blosc PROPERTIES IMPORTED_LOCATION "${BLOSC_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${BLOSC_INCLUDE_DIR}")
endif()
