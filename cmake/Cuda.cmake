# The GPU module, libfovea_cuda.so, where there is a CUDA compiler. Nothing links it: it is opened at
# run time, and its header, src/kernels/module.h, needs no toolkit.
set(FOVEA_CUDA AUTO CACHE STRING "The GPU module: AUTO where nvcc is found, ON, OFF")
set_property(CACHE FOVEA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FOVEA_CUDA_ARCHITECTURES 80 90a CACHE STRING "GPUs it has machine code for; the rest by PTX")

set(FOVEA_CUDA_FOUND OFF)
if(FOVEA_CUDA STREQUAL ON OR (FOVEA_CUDA STREQUAL AUTO AND NOT FOVEA_SANITIZE AND NOT FOVEA_FUZZ))
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(FOVEA_NVCC nvcc HINTS ${CMAKE_SOURCE_DIR}/build/cuda/bin ENV CUDACXX
      PATHS /usr/local/cuda/bin)
    if(FOVEA_NVCC)
      set(CMAKE_CUDA_COMPILER ${FOVEA_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # they are written out below
  if(CMAKE_CUDA_COMPILER)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
      set(FOVEA_CUDA_FOUND ON)
    else()
      message(STATUS "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old for the GPU module: 12.0 is needed")
    endif()
  endif()
  if(FOVEA_CUDA STREQUAL ON AND NOT FOVEA_CUDA_FOUND)
    message(FATAL_ERROR "FOVEA_CUDA=ON, and no nvcc of 12.0 or later; `./dev cuda` fetches one")
  endif()
endif()

# fovea_cuda(): the module, and fovea_cuda_open for who opens it.
function(fovea_cuda)
  set(root ${CMAKE_BINARY_DIR}/layers/cuda)
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/cuda ${root}/cuda SYMBOLIC)
  set(includes ${CMAKE_BINARY_DIR}/layers/public/core ${CMAKE_BINARY_DIR}/layers/public/kernels ${root}
    ${CMAKE_BINARY_DIR}/layers/core ${CMAKE_BINARY_DIR}/layers/kernels)

  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/*.cu)
  add_library(fovea_cuda MODULE ${sources} ${CMAKE_SOURCE_DIR}/src/core/error.cc)
  target_include_directories(fovea_cuda PRIVATE ${includes})
  list(GET FOVEA_CUDA_ARCHITECTURES 0 least)
  set(code -gencode=arch=compute_${least},code=compute_${least})
  foreach(architecture ${FOVEA_CUDA_ARCHITECTURES})
    list(APPEND code -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  if(90a IN_LIST FOVEA_CUDA_ARCHITECTURES)
    target_compile_definitions(fovea_cuda PRIVATE FOVEA_CUDA_HOPPER)
  endif()
  # A kernel that spills registers does not build.
  target_compile_options(fovea_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${code} --expt-relaxed-constexpr
    -Xptxas=--warn-on-spills,--warning-as-error -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>)
  set_target_properties(fovea_cuda PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
    CUDA_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

if(FOVEA_CUDA_FOUND)
  fovea_cuda()
endif()
