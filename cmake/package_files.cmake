# Run by cpack on each component's files before it makes the package: what Debian wants beside what `cmake --install`
# puts there.
file(GLOB roots LIST_DIRECTORIES true ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(root IN LISTS roots)
  get_filename_component(component ${root} NAME)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  if(NOT package OR NOT IS_DIRECTORY ${root}/usr)
    continue()
  endif()
  set(doc ${root}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${doc})
  file(READ ${CMAKE_CURRENT_LIST_DIR}/../LICENSE license)
  string(REGEX REPLACE "\n(.)" "\n \\1" license "${license}")
  string(REPLACE "\n\n" "\n .\n" license "${license}")
  file(WRITE ${doc}/copyright
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: samebits\n\n"
    "Files: *\nCopyright: 2026 The samebits authors\nLicense: Expat\n ${license}")
  file(WRITE ${doc}/changelog
    "samebits (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  Mon, 30 Nov 2026 00:00:00 +0000\n")
  file(GLOB pages ${root}/usr/share/man/man1/*.1)
  execute_process(COMMAND gzip -9n ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
  # The library lies where the loader looks.
  if(EXISTS ${root}/usr/bin/samebits)
    file(RPATH_REMOVE FILE ${root}/usr/bin/samebits)
  endif()
endforeach()
