# SPDX-License-Identifier: Apache-2.0
# DNNL::dnnl. Debian's CMake config of oneDNN requires the headers of OpenCL, which computing on
# processors does not need; this module takes precedence over it.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
if(DNNL_INCLUDE_DIR)
  file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" dnnl_lines
       REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" dnnl_numbers "${dnnl_lines}")
  string(REPLACE ";" "." DNNL_VERSION "${dnnl_numbers}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(dnnl REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR
                                  VERSION_VAR DNNL_VERSION)
if(dnnl_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
endif()
