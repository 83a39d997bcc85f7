# `cpack` in the build folder: fovea_VERSION_ARCH.deb, the program with its manual and completion, and
# libfovea-dev_VERSION_ARCH.deb, the library with its headers; where there is an MPI, fovea-mpi_VERSION_ARCH.deb
# too, the module that a launcher's processes open, so that the program itself needs no MPI.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fovea)
set(CPACK_PACKAGE_CONTACT "Fovea contributors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "attention, all of it: fused, differentiable, from the command line")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Trains, judges and shows models that attend; computes any attention.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME fovea)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "librsvg2-2, fonts-dejavu-core")  # for pictures as PNG

set(CPACK_COMPONENT_DEV_DESCRIPTION "The library, its headers and what CMake's find_package(Fovea) reads.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libfovea-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libhwy-dev, libfmt-dev, zlib1g-dev, libsentencepiece-dev, libutf8proc-dev")

if(TARGET fovea_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_COMPONENT_MPI_DESCRIPTION "What fovea needs to run on many machines under mpirun.")
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME fovea-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "fovea (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
