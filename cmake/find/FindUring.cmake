# SPDX-License-Identifier: Apache-2.0
# Uring::Uring; Debian's package has a .pc file but no CMake config.
find_path(URING_INCLUDE_DIR liburing.h)
find_library(URING_LIBRARY uring)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Uring REQUIRED_VARS URING_LIBRARY URING_INCLUDE_DIR)
if(Uring_FOUND AND NOT TARGET Uring::Uring)
  add_library(Uring::Uring UNKNOWN IMPORTED)
  set_target_properties(Uring::Uring PROPERTIES IMPORTED_LOCATION "${URING_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${URING_INCLUDE_DIR}")
endif()
