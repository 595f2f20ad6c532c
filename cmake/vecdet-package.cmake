# SPDX-License-Identifier: Apache-2.0
# A Debian package with headers, CMake package, pkg-config file and documentation, built by the preset
# `package` (cmake --workflow --preset package), which also builds the documentation into it. It is
# independent of compiler and processor.
if(NOT CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  return()
endif()
install(FILES README.md CHANGELOG.md packaging/copyright DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN site EXCLUDE)
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_BINARY_DIR}/docs/html" DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vecdet)
set(CPACK_PACKAGE_CONTACT "The authors of vecdet <vecdet@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
string(CONCAT CPACK_PACKAGE_DESCRIPTION
  "Header-only C++17 library: anchors and matching, the losses of dense\n"
  "detectors with their gradients, box coding, IoU, NMS and postprocessing,\n"
  "for x86-64, AVX2 and AVX-512, chosen at run time.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_NAME libvecdet-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libxsimd-dev (>= 8.1), libtbb-dev (>= 2021)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake (>= 3.16), pkg-config")
include(CPack)
