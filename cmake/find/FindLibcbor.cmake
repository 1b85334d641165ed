# SPDX-License-Identifier: Apache-2.0
# Libcbor::Libcbor; Debian's package has a .pc file but no CMake config.
find_path(LIBCBOR_INCLUDE_DIR cbor.h)
find_library(LIBCBOR_LIBRARY cbor)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libcbor REQUIRED_VARS LIBCBOR_LIBRARY LIBCBOR_INCLUDE_DIR)
if(Libcbor_FOUND AND NOT TARGET Libcbor::Libcbor)
  add_library(Libcbor::Libcbor UNKNOWN IMPORTED)
  set_target_properties(Libcbor::Libcbor PROPERTIES IMPORTED_LOCATION "${LIBCBOR_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${LIBCBOR_INCLUDE_DIR}")
endif()
