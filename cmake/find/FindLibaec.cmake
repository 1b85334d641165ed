# SPDX-License-Identifier: Apache-2.0
# Libaec::Libaec; Debian's package has neither CMake config nor .pc file.
find_path(LIBAEC_INCLUDE_DIR libaec.h)
find_library(LIBAEC_LIBRARY aec)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libaec REQUIRED_VARS LIBAEC_LIBRARY LIBAEC_INCLUDE_DIR)
if(Libaec_FOUND AND NOT TARGET Libaec::Libaec)
  add_library(Libaec::Libaec UNKNOWN IMPORTED)
  set_target_properties(Libaec::Libaec PROPERTIES IMPORTED_LOCATION "${LIBAEC_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${LIBAEC_INCLUDE_DIR}")
endif()
