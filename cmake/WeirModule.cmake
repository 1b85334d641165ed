# SPDX-License-Identifier: Apache-2.0
# weir_split_headers(FOLDER HEADERS SOURCES FIRST_VARIABLE OTHERS_VARIABLE)
# Splits the headers below FOLDER into those that a source file includes before anything else, and the others. A compiler
# that compiles the sources file by file compiles the first kind alone in any case. The presets dev and clang do so; the release
# build, which has batches, leaves the first kind to them (docs/decisions/023).
function(weir_split_headers folder headers sources first_variable others_variable)
  set(included_first "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    file(STRINGS "${source}" line LIMIT_COUNT 1 REGEX "^#include ")
    string(REGEX REPLACE "^#include [<\"]([^>\"]+).*" "\\1" name "${line}")
    list(APPEND included_first "${folder}/${name}")
  endforeach()
  set(others ${headers})
  if(included_first)
    list(REMOVE_ITEM others ${included_first})
  endif()
  set(first ${headers})
  if(others)
    list(REMOVE_ITEM first ${others})
  endif()
  set(${first_variable} ${first} PARENT_SCOPE)
  set(${others_variable} ${others} PARENT_SCOPE)
endfunction()

# weir_in_batches(TARGET)
# A batch compiles several files as one, in which a local name may hide a name of another file. That is no mistake, so batches do not
# warn about it. A build of single files, as that of the preset `dev`, does.
function(weir_in_batches name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE
    "#pragma GCC diagnostic ignored \"-Wshadow\"")
endfunction()

# weir_module(NAME SOURCES ... [INCLUDES folder ...] [DEPENDS ...] [PRIVATE_DEPENDS ...])
# Defines the static library weir_NAME (alias weir::NAME), and installs it. Its public headers are in weir/NAME/ of the
# INCLUDES, which are relative to the folder that calls it; by default there is one, include.
function(weir_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;INCLUDES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(NOT arg_INCLUDES)
    set(arg_INCLUDES include)
  endif()
  add_library(weir_${name} STATIC ${arg_SOURCES})
  add_library(weir::${name} ALIAS weir_${name})
  list(TRANSFORM arg_INCLUDES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set(all_first "")
  set(all_others "")
  foreach(folder IN LISTS arg_INCLUDES)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${folder}/*.hpp" "${folder}/*.h")
    weir_split_headers("${folder}" "${headers}" "${arg_SOURCES}" first others)
    list(APPEND all_first ${first})
    list(APPEND all_others ${others})
  endforeach()
  target_sources(weir_${name} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${arg_INCLUDES} FILES ${all_others}
    FILE_SET included_first TYPE HEADERS BASE_DIRS ${arg_INCLUDES} FILES ${all_first})
  target_include_directories(weir_${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(weir_${name} PUBLIC ${arg_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:weir_flags> ${arg_PRIVATE_DEPENDS})
  target_compile_features(weir_${name} PUBLIC cxx_std_20)
  weir_in_batches(weir_${name})
  set_target_properties(weir_${name} PROPERTIES
    EXPORT_NAME ${name} INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  install(TARGETS weir_${name} EXPORT weirTargets FILE_SET HEADERS FILE_SET included_first
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  set_property(GLOBAL APPEND PROPERTY WEIR_SUMMARY "weir::${name}")
endfunction()

# weir_test(NAME SOURCES ... [ONE_THREAD ...] [DEPENDS ...] [LABELS ...] [TIMEOUT seconds])
# Defines a GoogleTest program; each TEST becomes a CTest entry "NAME.Suite.Test". The label is "unit"
# and the timeout 120 seconds unless given. ONE_THREAD lists the sources that start no thread: they are left out if
# WEIR_ONE_THREAD_TESTS is OFF, and a program without sources is left out, too.
function(weir_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;ONE_THREAD;DEPENDS;LABELS" ${ARGN})
  if(arg_ONE_THREAD AND NOT WEIR_ONE_THREAD_TESTS)
    list(REMOVE_ITEM arg_SOURCES ${arg_ONE_THREAD})
  endif()
  if(NOT arg_SOURCES)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(WEIR_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")  # instrumented code is many times slower
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${arg_SOURCES})
  weir_in_batches(${name})
  target_link_libraries(${name} PRIVATE
    ${arg_DEPENDS} weir_flags weir_test_folders GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# weir_bench(NAME SOURCES ... [DEPENDS ...])
# Defines a benchmark program, which prints JSON rows (bench/README.md) and is built in the folder bench/
# of the build folder. The target `benches` builds all of them.
function(weir_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  if(NOT TARGET benches)
    add_custom_target(benches)
  endif()
  add_dependencies(benches ${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} weir_flags)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
  # A benchmark program has few files, and each names its own sizes.
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()
