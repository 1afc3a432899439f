# What `cmake --install` puts where: libraries, headers, the CMake package, the pkg-config file.
include(CMakePackageConfigHelpers)
set(SAMEBITS_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/samebits)

set_target_properties(samebits_static PROPERTIES EXPORT_NAME static)
install(TARGETS samebits EXPORT samebits_targets LIBRARY COMPONENT library NAMELINK_COMPONENT development)
# The rest is for who builds with the library.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS samebits_static EXPORT samebits_static_targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/samebits DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT samebits_targets NAMESPACE samebits:: DESTINATION ${SAMEBITS_PACKAGE_DIR} FILE samebitsTargets.cmake)
install(EXPORT samebits_static_targets NAMESPACE samebits:: DESTINATION ${SAMEBITS_PACKAGE_DIR}
  FILE samebitsStaticTargets.cmake)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/samebitsConfig.cmake.in
  ${PROJECT_BINARY_DIR}/samebitsConfig.cmake INSTALL_DESTINATION ${SAMEBITS_PACKAGE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/samebitsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/samebitsConfig.cmake ${PROJECT_BINARY_DIR}/samebitsConfigVersion.cmake
  DESTINATION ${SAMEBITS_PACKAGE_DIR})

# A prefix relative to the file, so that an installed tree may be moved.
file(RELATIVE_PATH SAMEBITS_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" SAMEBITS_PC_PREFIX "${SAMEBITS_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/samebits.pc.in ${PROJECT_BINARY_DIR}/samebits.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/samebits.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET samebits_cli)
  install(TARGETS samebits_cli COMPONENT command)
endif()
include(${PROJECT_SOURCE_DIR}/cmake/package.cmake)
