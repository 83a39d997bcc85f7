# The components of the library, its public headers, the program, and what find_package(Fovea) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Fovea)

get_property(components GLOBAL PROPERTY fovea_components)
list(TRANSFORM components PREPEND fovea_component_ OUTPUT_VARIABLE libraries)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
install(TARGETS fovea_lib ${libraries} EXPORT FoveaTargets)
get_property(headers GLOBAL PROPERTY fovea_public_headers)  # of the layers that are built
list(TRANSFORM headers PREPEND include/fovea/)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fovea)
install(EXPORT FoveaTargets NAMESPACE Fovea:: DESTINATION ${package_dir})
if(TARGET fovea)
  install(TARGETS fovea COMPONENT program)
  # The manual, made of what --help says: `cmake --build build --target fovea_manual`.
  set(manual ${CMAKE_BINARY_DIR}/fovea.1)
  add_custom_command(OUTPUT ${manual}
    COMMAND bash ${CMAKE_SOURCE_DIR}/app/manual.sh $<TARGET_FILE:fovea> > ${manual}
    DEPENDS fovea ${CMAKE_SOURCE_DIR}/app/manual.sh VERBATIM)
  add_custom_target(fovea_manual DEPENDS ${manual})
  install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
  install(FILES app/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME fovea COMPONENT program)
endif()

if(TARGET fovea_mpi)  # where dlopen() looks by itself; OPTIONAL: of who has built it
  install(TARGETS fovea_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi OPTIONAL)
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
