# The NCCL module, libfovea_nccl.so, where nccl.h, NCCL and the CUDA runtime are found. Nothing links it: it is
# opened at run time, where FOVEA_MPI_MODULE names it, and its header, src/team/module.h, needs none of these. NCCL of
# one's own: -DNCCL_ROOT=FOLDER, which has include and lib.
set(FOVEA_NCCL AUTO CACHE STRING "The NCCL module: AUTO where nccl.h is found, ON, OFF")
set_property(CACHE FOVEA_NCCL PROPERTY STRINGS AUTO ON OFF)

if(FOVEA_NCCL STREQUAL ON OR (FOVEA_NCCL STREQUAL AUTO AND NOT FOVEA_SANITIZE AND NOT FOVEA_FUZZ))
  find_path(FOVEA_NCCL_INCLUDE nccl.h HINTS ${NCCL_ROOT} ENV NCCL_ROOT PATH_SUFFIXES include)
  find_library(FOVEA_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${NCCL_ROOT} ENV NCCL_ROOT PATH_SUFFIXES lib)
  if(FOVEA_NCCL_INCLUDE AND FOVEA_NCCL_LIBRARY)
    find_package(CUDAToolkit QUIET)
  endif()
  if(FOVEA_NCCL_INCLUDE AND FOVEA_NCCL_LIBRARY AND TARGET CUDA::cudart_static)
    add_library(fovea_nccl MODULE ${CMAKE_SOURCE_DIR}/src/nccl/module.cc)
    target_include_directories(fovea_nccl PRIVATE ${CMAKE_BINARY_DIR}/layers/team)
    target_include_directories(fovea_nccl SYSTEM PRIVATE ${FOVEA_NCCL_INCLUDE})
    target_compile_options(fovea_nccl PRIVATE ${FOVEA_WARNINGS})
    target_link_libraries(fovea_nccl PRIVATE ${FOVEA_NCCL_LIBRARY} CUDA::cudart_static)
    set_target_properties(fovea_nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  elseif(FOVEA_NCCL STREQUAL ON)
    message(FATAL_ERROR "FOVEA_NCCL=ON, and no nccl.h, no NCCL or no CUDA runtime; NCCL_ROOT says where NCCL is")
  endif()
endif()
