# SPDX-License-Identifier: Apache-2.0
# Zfp::Zfp; Debian's CMake config requires OpenMP for C, which users of the library do not need.
find_path(ZFP_INCLUDE_DIR zfp.h)
find_library(ZFP_LIBRARY zfp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Zfp REQUIRED_VARS ZFP_LIBRARY ZFP_INCLUDE_DIR)
if(Zfp_FOUND AND NOT TARGET Zfp::Zfp)
  add_library(Zfp::Zfp UNKNOWN IMPORTED)
  set_target_properties(Zfp::Zfp PROPERTIES IMPORTED_LOCATION "${ZFP_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${ZFP_INCLUDE_DIR}")
endif()
