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

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(map ${PROJECT_SOURCE_DIR}/cmake/library.map)
  target_link_options(bass_library PRIVATE LINKER:--version-script=${map})
  set_property(TARGET bass_library APPEND PROPERTY LINK_DEPENDS ${map})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bass)
set(models_dir ${CMAKE_INSTALL_DATADIR}/bass/models)  # src/cli/CMakeLists.txt installs them
install(EXPORT bass_targets NAMESPACE bass:: DESTINATION ${package_dir} FILE bass-targets.cmake)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/bass-config.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/bass-config.cmake INSTALL_DESTINATION ${package_dir}
                              PATH_VARS models_dir)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bass-config.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/bass-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bass-config-version.cmake DESTINATION ${package_dir})

# For those who build without CMake. Written when it is installed: `cmake --install --prefix` may choose another place.
foreach(dir LIBDIR INCLUDEDIR DATADIR)
  string(TOLOWER ${dir} name)
  set(pc_${name} "\\\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(pc_${name} "${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(pc_folder "\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
install(CODE "
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(pc_libdir \"${pc_libdir}\")
  set(pc_includedir \"${pc_includedir}\")
  set(pc_datadir \"${pc_datadir}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/cmake/bass.pc.in\" \"\$ENV{DESTDIR}${pc_folder}/bass.pc\" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"${pc_folder}/bass.pc\")
")
