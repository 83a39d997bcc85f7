# The components of the library, its public headers, the program, and what find_package(Fovea) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Fovea)

get_property(components GLOBAL PROPERTY fovea_components)
list(TRANSFORM components PREPEND fovea_component_ OUTPUT_VARIABLE libraries)
install(TARGETS fovea_lib ${libraries} EXPORT FoveaTargets)
install(DIRECTORY include/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT FoveaTargets NAMESPACE Fovea:: DESTINATION ${package_dir})
if(TARGET fovea)
  install(TARGETS fovea)
endif()

set(FOVEA_COMPONENTS ${components})
set(FOVEA_STATIC TRUE)
if(BUILD_SHARED_LIBS)
  set(FOVEA_STATIC FALSE)
endif()
configure_package_config_file(cmake/FoveaConfig.cmake.in
  ${CMAKE_BINARY_DIR}/generated/FoveaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/FoveaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/FindSentencePiece.cmake cmake/FindUtf8proc.cmake
  ${CMAKE_BINARY_DIR}/generated/FoveaConfig.cmake
  ${CMAKE_BINARY_DIR}/generated/FoveaConfigVersion.cmake DESTINATION ${package_dir})
