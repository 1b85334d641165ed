# SPDX-License-Identifier: Apache-2.0
# Pcre2::Pcre2, the library of 8-bit code units; Debian's package has a .pc file but no CMake config.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pcre2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR)
if(Pcre2_FOUND AND NOT TARGET Pcre2::Pcre2)
  add_library(Pcre2::Pcre2 UNKNOWN IMPORTED)
  set_target_properties(Pcre2::Pcre2 PROPERTIES IMPORTED_LOCATION "${PCRE2_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${PCRE2_INCLUDE_DIR}")
endif()
