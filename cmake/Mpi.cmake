# The MPI module, libfovea_mpi.so, where there is an MPI. Nothing links it: it is opened at run time, under a
# launcher, and its header, src/team/module.h, needs no MPI. For another MPI, the same file once more:
#   mpicxx.mpich -std=c++20 -O2 -shared -fPIC -I src src/mpi/module.cc -o libfovea_mpi.so
set(FOVEA_MPI AUTO CACHE STRING "The MPI module: AUTO where MPI is found, ON, OFF")
set_property(CACHE FOVEA_MPI PROPERTY STRINGS AUTO ON OFF)

if(NOT FOVEA_MPI STREQUAL OFF AND NOT FOVEA_FUZZ)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    add_library(fovea_mpi MODULE ${CMAKE_SOURCE_DIR}/src/mpi/module.cc)
    target_include_directories(fovea_mpi PRIVATE ${CMAKE_BINARY_DIR}/layers/team)
    target_compile_options(fovea_mpi PRIVATE ${FOVEA_WARNINGS})
    target_link_libraries(fovea_mpi PRIVATE MPI::MPI_CXX)
    set_target_properties(fovea_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  elseif(FOVEA_MPI STREQUAL ON)
    message(FATAL_ERROR "FOVEA_MPI=ON, and no MPI: libopenmpi-dev or libmpich-dev has one")
  endif()
endif()
