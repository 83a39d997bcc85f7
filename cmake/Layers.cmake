# A layer is a folder under src/ and an object library. It sees the public headers, itself, and the
# layers it names with USES: each layer's folder is linked into a directory of its own that serves
# as include root, so that including any other layer fails to build.

set(FOVEA_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-psabi)
if(FOVEA_WERROR)
  list(APPEND FOVEA_WARNINGS -Werror)
endif()

function(fovea_layer name)
  cmake_parse_arguments(ARG "" "" "USES;LIBS" ${ARGN})
  set(root ${CMAKE_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${root}/${name} SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  add_library(fovea_${name} OBJECT ${sources})
  target_compile_options(fovea_${name} PRIVATE ${FOVEA_WARNINGS})
  target_compile_definitions(fovea_${name} PRIVATE FOVEA_VERSION="${PROJECT_VERSION}")
  target_include_directories(fovea_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include ${root})
  foreach(used ${ARG_USES})
    target_include_directories(fovea_${name} PUBLIC ${CMAKE_BINARY_DIR}/layers/${used})
  endforeach()
  target_link_libraries(fovea_${name} PRIVATE ${ARG_LIBS})
  set_property(GLOBAL PROPERTY fovea_${name}_libs ${ARG_LIBS})
endfunction()

# The library proper: the layers' objects together.
function(fovea_library)
  set(objects)
  set(libs)
  foreach(layer ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:fovea_${layer}>)
    get_property(layer_libs GLOBAL PROPERTY fovea_${layer}_libs)
    list(APPEND libs ${layer_libs})
  endforeach()
  list(REMOVE_DUPLICATES libs)
  add_library(fovea_lib ${objects})
  add_library(Fovea::fovea ALIAS fovea_lib)
  set_target_properties(fovea_lib PROPERTIES OUTPUT_NAME fovea EXPORT_NAME fovea
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(fovea_lib INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(fovea_lib PRIVATE ${libs})
endfunction()
