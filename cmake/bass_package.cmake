# A Debian package of what `cmake --install` puts in place: `cmake --build build/release --target package`, or `cpack` in
# the build's folder. What the programs link is looked up by dpkg-shlibdeps (package dpkg-dev).
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/bass RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The BASS authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # the loader is told of the library
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, python3-pip")  # what `bass pull` fetches with
include(CPack)
