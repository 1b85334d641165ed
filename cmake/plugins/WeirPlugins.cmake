# SPDX-License-Identifier: Apache-2.0
# Plug-ins with stages (record 520). A plug-in links nothing of Weir: it finds base, runtime and pipeline in the program that
# loads it, so that a process has each of them once. These three are therefore compiled with names that a program may export.
set(weir_plugin_modules base runtime pipeline)
foreach(module IN LISTS weir_plugin_modules)
  if(TARGET weir_${module})
    set_target_properties(weir_${module} PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
    # Without this option a call of an exported function is never inlined.
    target_compile_options(weir_${module} PRIVATE -fno-semantic-interposition)
  endif()
endforeach()
if(NOT TARGET weir_pipeline)
  return()
endif()

# weir::plugin has the headers for a plug-in and links nothing of Weir.
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(Threads REQUIRED)
add_library(weir_plugin INTERFACE)
add_library(weir::plugin ALIAS weir_plugin)
foreach(module IN LISTS weir_plugin_modules)
  target_include_directories(weir_plugin INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${module}/include>")
endforeach()
target_include_directories(weir_plugin INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(weir_plugin INTERFACE fmt::fmt tl::expected Threads::Threads)
target_compile_features(weir_plugin INTERFACE cxx_std_20)

# weir::plugin_host makes a program export what plug-ins need. It links base, runtime and pipeline as a whole, because a plug-in
# may call what the program does not.
add_library(weir_plugin_host INTERFACE)
add_library(weir::plugin_host ALIAS weir_plugin_host)
set(weir_exports "${PROJECT_SOURCE_DIR}/cmake/plugins/plugin_exports.txt")
set(build_link "LINKER:--dynamic-list=${weir_exports}" "LINKER:--whole-archive")
set(install_link "LINKER:--dynamic-list=$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/cmake/weir/plugin_exports.txt"
    "LINKER:--whole-archive")
foreach(module IN LISTS weir_plugin_modules)
  list(APPEND build_link "$<TARGET_FILE:weir_${module}>")
  list(APPEND install_link "$<TARGET_FILE:weir::${module}>")
endforeach()
list(APPEND build_link "LINKER:--no-whole-archive")
list(APPEND install_link "LINKER:--no-whole-archive")
target_link_options(weir_plugin_host INTERFACE "$<BUILD_INTERFACE:${build_link}>" "$<INSTALL_INTERFACE:${install_link}>")
target_link_libraries(weir_plugin_host INTERFACE weir::base weir::runtime weir::pipeline)

set_target_properties(weir_plugin PROPERTIES EXPORT_NAME plugin)
set_target_properties(weir_plugin_host PROPERTIES EXPORT_NAME plugin_host)
install(TARGETS weir_plugin weir_plugin_host EXPORT weirTargets)
install(FILES "${weir_exports}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
