# SPDX-License-Identifier: Apache-2.0
# Options, compiler flags, and the summary that is printed at the end of the configuration.
option(WEIR_TESTS "Build the tests" ON)
option(WEIR_UNITY_TESTS "Compile test files in batches: shorter from scratch, longer after a change" OFF)
option(WEIR_ONE_THREAD_TESTS "Build the test files that start no thread; scripts/test sets it to OFF under ThreadSanitizer" ON)
option(WEIR_BENCH "Build the benchmarks" OFF)
option(WEIR_WERROR "Warnings are errors" OFF)
option(WEIR_FUZZ "Build the libFuzzer programs; needs clang" OFF)
option(WEIR_POINTER_CHECKS "UndefinedBehaviorSanitizer checks every use of a pointer; scripts/test sets it to OFF for make test" ON)
set(WEIR_CUDA "auto" CACHE STRING "CUDA toolkit: on (needed), auto (used if it is found) or off; the backend is built without it")
set(WEIR_SANITIZE "" CACHE STRING "address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Defines the target all_verify_interface_header_sets, which compiles every public header alone.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
include(GNUInstallDirs)

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${WEIR_CCACHE}")
endif()

# -ffp-contract=off: a multiplication and an addition are never fused into one rounding, so g++ and
# clang++ give the same bits.
# Two warnings of g++ 12 are wrong here. It takes the files of a batch for headers, whose classes must not have members of types in
# unnamed namespaces, and it does not see that an optional value is only read where it was set.
add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -ffp-contract=off
  # Texts of failed checks name a file from the root of the project on, so that two checkouts compile to the same bytes.
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/="
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -Wno-maybe-uninitialized>
  $<$<BOOL:${WEIR_WERROR}>:-Werror>)
if(WEIR_SANITIZE)
  add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${WEIR_SANITIZE})
  # The programs of these builds have hundreds of MiB, which lld links in a fifth of the time of GNU ld.
  find_program(WEIR_LLD NAMES ld.lld-14 ld.lld)
  if(WEIR_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_link_options(-fuse-ld=lld LINKER:--build-id=sha1)
  endif()
  if(WEIR_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
    if(NOT WEIR_POINTER_CHECKS)
      # AddressSanitizer reports what these checks would find first in most cases, and they make objects half as large
      # again (docs/decisions/029).
      add_compile_options(-fno-sanitize=null,alignment,object-size,vptr,pointer-overflow)
    endif()
  endif()
  if(WEIR_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)
  endif()
endif()

# weir_computes_little([ON_FIBERS])
# A folder calls this if what it builds computes little: a build with a sanitizer does not optimise it, which compiles in half
# the time (docs/decisions/026). A program of libFuzzer is run for long, so it is optimised. ThreadSanitizer notes every call of
# a function on a stack of its own, which does not survive the first switch to a fiber unless the switch is optimised. A folder
# whose functions run on fibers says ON_FIBERS, and is optimised under ThreadSanitizer.
macro(weir_computes_little)
  if(WEIR_SANITIZE AND NOT WEIR_FUZZ)
    if("${ARGN}" STREQUAL "ON_FIBERS" AND WEIR_SANITIZE MATCHES "thread")
      add_compile_options(-O1)  # also if the folder above is not optimised
    else()
      add_compile_options(-O0)
    endif()
  endif()
endmacro()

# weir_reads_foreign_bytes()
# A folder calls this if what it builds reads bytes that others wrote: UndefinedBehaviorSanitizer then checks its pointers in every build.
macro(weir_reads_foreign_bytes)
  if(WEIR_SANITIZE MATCHES undefined)
    add_compile_options(-fsanitize=undefined)
  endif()
endmacro()

# weir_not_under_sanitizers(PROGRAM)
# A build with a sanitizer does not compile PROGRAM, because no test of such a build runs it.
function(weir_not_under_sanitizers program)
  if(WEIR_SANITIZE)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

if(WEIR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

function(weir_print_summary)
  get_property(notes GLOBAL PROPERTY WEIR_SUMMARY)
  message(STATUS "weir ${PROJECT_VERSION}: "
                 "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
                 "${CMAKE_BUILD_TYPE}, sanitizer '${WEIR_SANITIZE}', modules: ${WEIR_MODULES}")
  foreach(note IN LISTS notes)
    message(STATUS "  ${note}")
  endforeach()
endfunction()
set(WEIR_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING "Folder of Python packages below the prefix")
