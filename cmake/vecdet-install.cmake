# SPDX-License-Identifier: Apache-2.0
# Installs headers, unit sources and a CMake package that makes the targets in the user's tree. The
# package depends on no compiler and no processor.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/vecdet")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/vecdetConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/vecdetConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/vecdetConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/vecdet" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/vecdetConfig.cmake"
              "${PROJECT_BINARY_DIR}/vecdetConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/vecdet-targets.cmake"
        DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
