# The library that others link: bass::bass, a shared library with the headers of include/bass and nothing else in its
# interface. `cmake --install` puts it, the headers, the CMake package and the program in place.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(bass_library SHARED ${PROJECT_SOURCE_DIR}/cmake/library.cc)
set_target_properties(bass_library PROPERTIES OUTPUT_NAME bass EXPORT_NAME bass VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(bass_library PUBLIC cxx_std_20)
target_include_directories(bass_library PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Everything that include/bass declares is defined in src/engine; the folders below it follow by reference.
target_link_libraries(bass_library PRIVATE $<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,bass_engine>>)

install(TARGETS bass_library EXPORT bass_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/bass DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bass)
install(EXPORT bass_targets NAMESPACE bass:: DESTINATION ${package_dir} FILE bass-config.cmake)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/bass-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bass-config-version.cmake DESTINATION ${package_dir})
