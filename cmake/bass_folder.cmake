# One CMake target a folder: bass_<name> from the folder's *.cc, and bass_<name>_test from its *_test.cc.
#
#   bass_folder(io DEPS tensor base LIBS PkgConfig::X)
#
# DEPS are other folders of this project (bass_<dep>), LIBS are external targets that the sources need. Where CMake is
# asked to compile several files as one (CMAKE_UNITY_BUILD: a folder built from nothing takes half the time), names of a
# folder's anonymous namespaces meet; those of the files SEPARATE (ALL: of the folder's) stay apart.

get_filename_component(BASS_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

set(BASS_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter -Wno-missing-field-initializers)

# Reproducible floating point is a promise to the user (docs/architecture.md, "Exactness"): no contraction that the
# source does not spell out as std::fma or an intrinsic, no reassociation.
set(BASS_FP_FLAGS -ffp-contract=off -fno-fast-math)

add_library(bass_flags INTERFACE)
target_include_directories(bass_flags INTERFACE
  $<BUILD_INTERFACE:${BASS_ROOT}/src> $<BUILD_INTERFACE:${BASS_ROOT}/include>
  $<INSTALL_INTERFACE:include>)
target_compile_features(bass_flags INTERFACE cxx_std_20)
add_library(bass_private_flags INTERFACE)
target_compile_options(bass_private_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${BASS_WARNINGS};${BASS_FP_FLAGS}>")
if(BASS_SANITIZE)
  target_compile_options(bass_private_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${BASS_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_link_options(bass_flags INTERFACE -fsanitize=${BASS_SANITIZE})
endif()
if(BASS_SANITIZE MATCHES "address.*undefined" AND NOT BASS_FUZZ)
  # AddressSanitizer finds most of what these find, where memory is accessed, and they take a quarter of the time to
  # compile. What reads files of strangers keeps them where it is fuzzed.
  target_compile_options(bass_private_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size,pointer-overflow>")
endif()

if(BASS_FUZZ)  # libFuzzer sees which code an input reached
  target_compile_options(bass_private_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(bass_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What tests add to it. Alignment is looked at where files and pages are read; here it is a tenth of compiling.
add_library(bass_test_flags INTERFACE)
if(BASS_SANITIZE MATCHES "undefined")
  target_compile_options(bass_test_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=alignment>")
endif()

function(bass_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;TEST_LIBS;SEPARATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_main)\\.cc$")
  if("${ARG_SEPARATE}" STREQUAL "ALL")
    set(ARG_SEPARATE ${sources} ${tests})
  endif()
  set_source_files_properties(${ARG_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(BASS_FUZZ)  # nothing that is fuzzed needs them, and kernels with sanitizers take clang many minutes
    list(REMOVE_ITEM ARG_DEPS kernels cache)
  endif()
  list(TRANSFORM ARG_DEPS PREPEND bass_)

  add_library(bass_${name} STATIC ${sources})
  target_link_libraries(bass_${name} PUBLIC bass_flags ${ARG_DEPS} ${ARG_LIBS} PRIVATE $<BUILD_INTERFACE:bass_private_flags>)
  set_property(TARGET bass_${name} PROPERTY LINKER_LANGUAGE CXX)

  if(BASS_BUILD_TESTS AND tests)
    add_executable(bass_${name}_test ${tests})
    target_link_libraries(bass_${name}_test PRIVATE bass_${name} ${ARG_TEST_LIBS} $<BUILD_INTERFACE:bass_private_flags>
                          bass_test_flags GTest::gmock GTest::gtest_main)
    target_compile_definitions(bass_${name}_test PRIVATE BASS_TEST_DATA="${BASS_TEST_DATA}")
    target_include_directories(bass_${name}_test PRIVATE ${BASS_ROOT}/tests)
    gtest_discover_tests(bass_${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 PROPERTIES LABELS ${name} TIMEOUT 600)
  endif()
endfunction()
