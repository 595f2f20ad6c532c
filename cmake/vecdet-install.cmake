# SPDX-License-Identifier: Apache-2.0
# Installs headers, unit sources and a CMake package that creates the targets in the user's tree. The
# package is independent of compiler and processor.
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

# For pkg-config: independent of the processor and relocatable.
set(pc_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "/${pc_dir}" "/")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pc_unit_flags "-O2 -ffp-contract=off -fno-math-errno")
set(pc_system_flags "")
if(MINGW AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(pc_system_flags " ${VECDET_UNALIGNED_MOVES}")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/vecdet.pc.in" "${PROJECT_BINARY_DIR}/vecdet.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/vecdet.pc" DESTINATION "${pc_dir}")

# The Common Package Specification of only the headers, if CMake supports it, for other build systems. It has a
# separate name, because CMake prefers it to a CMake package and it cannot describe vecdet::dispatch, whose units
# are compiled in the user's tree.
if(CMAKE_VERSION VERSION_GREATER_EQUAL 4.3)
  add_library(vecdet_headers INTERFACE)
  set_target_properties(vecdet_headers PROPERTIES EXPORT_NAME vecdet)
  target_compile_features(vecdet_headers INTERFACE cxx_std_17)
  target_include_directories(vecdet_headers INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(vecdet_headers INTERFACE TBB::tbb)
  install(TARGETS vecdet_headers EXPORT vecdet_cps)
  install(PACKAGE_INFO vecdet-headers EXPORT vecdet_cps VERSION "${PROJECT_VERSION}"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/cps/vecdet-headers")
endif()

# The C interface, built here. The component c is complete: library, header and pkg-config file.
if(VECDET_C)
  install(TARGETS vecdet_c LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT c NAMELINK_COMPONENT c
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT c # on Windows: the DLL and its import library
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT c)
  install(FILES "${PROJECT_SOURCE_DIR}/include/vecdet/c.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/vecdet" COMPONENT c)
  file(RELATIVE_PATH c_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" c_pc_to_prefix "${c_pc_to_prefix}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/vecdet-c.pc.in" "${PROJECT_BINARY_DIR}/vecdet-c.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/vecdet-c.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT c)
endif()
if(VECDET_ONNXRUNTIME)
  install(TARGETS vecdet_onnxruntime LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT onnxruntime)
endif()

include(vecdet-package)
