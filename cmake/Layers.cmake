# A layer is a folder under src/ and an object library. It sees itself, the layers it names with USES,
# and the public headers of all layers below it. Each layer's folder, and its public headers, are
# linked into directories of their own that serve as include roots, so that including anything else
# fails to build.

set(FOVEA_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Files compiled together are not headers; gcc 13 takes references to what is kept for dangling.
  list(APPEND FOVEA_WARNINGS -Wno-subobject-linkage -Wno-dangling-reference)
endif()
if(FOVEA_WERROR)
  list(APPEND FOVEA_WARNINGS -Werror -Wno-error=array-bounds)  # gcc 12 sees phantoms there
endif()

# Where nothing is hot and much would be inlined: a third less time to compile than by -O3.
set(FOVEA_COLD -O1)

# A target needs a source: what a folder that is still empty compiles.
set(FOVEA_NOTHING ${CMAKE_BINARY_DIR}/generated/nothing.cc)
file(CONFIGURE OUTPUT ${FOVEA_NOTHING} CONTENT "")

# USES: the layers whose own headers it may include. PUBLIC: the headers of include/fovea that are its
# own; it may include those of every layer below it. LIBS are linked and, in a static build, handed on
# to the consumer; HEADERS only compile. COLD: nothing in it is hot.
function(fovea_layer name)
  cmake_parse_arguments(ARG "COLD" "" "USES;PUBLIC;LIBS;HEADERS" ${ARGN})
  set(below ${name})
  foreach(used ${ARG_USES})
    get_property(more GLOBAL PROPERTY fovea_${used}_below)
    list(APPEND below ${more})
  endforeach()
  list(REMOVE_DUPLICATES below)

  set(roots ${CMAKE_BINARY_DIR}/layers)
  set(public ${roots}/public/${name}/fovea)
  file(REMOVE_RECURSE ${public})
  file(MAKE_DIRECTORY ${roots}/${name} ${public})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${roots}/${name}/${name} SYMBOLIC)
  foreach(header ${ARG_PUBLIC})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include/fovea/${header} ${public}/${header} SYMBOLIC)
  endforeach()

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  if(NOT sources)
    set(sources ${FOVEA_NOTHING})
  endif()
  add_library(fovea_${name} OBJECT ${sources})
  set(common fovea_common)
  target_compile_options(fovea_${name} PRIVATE ${FOVEA_WARNINGS})
  if(ARG_COLD)
    set(common fovea_common_cold)
    target_compile_options(fovea_${name} PRIVATE ${FOVEA_COLD})
  endif()
  list(TRANSFORM below PREPEND ${roots}/public/ OUTPUT_VARIABLE public_roots)
  list(TRANSFORM ARG_USES PREPEND ${roots}/ OUTPUT_VARIABLE used_roots)
  target_include_directories(fovea_${name} PRIVATE ${roots}/${name} ${used_roots} ${public_roots})
  target_link_libraries(fovea_${name} PRIVATE ${ARG_LIBS} ${ARG_HEADERS})
  if("fmt::fmt" IN_LIST ARG_LIBS)
    fovea_precompiled(fovea_${name} ${common})
    fovea_unity(fovea_${name} ${sources})
  endif()
  set_property(GLOBAL APPEND PROPERTY fovea_layers ${name})
  set_property(GLOBAL APPEND PROPERTY fovea_public_headers ${ARG_PUBLIC})
  set_property(GLOBAL PROPERTY fovea_${name}_uses ${ARG_USES})
  set_property(GLOBAL PROPERTY fovea_${name}_below ${below})
  set_property(GLOBAL PROPERTY fovea_${name}_libs ${ARG_LIBS})
endfunction()

# Each header of include/fovea is of one layer.
function(fovea_check_public_headers)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/include/fovea
    ${CMAKE_SOURCE_DIR}/include/fovea/*.h)
  get_property(owned GLOBAL PROPERTY fovea_public_headers)
  foreach(header ${headers} ${owned})
    set(found ${owned})
    list(FILTER found INCLUDE REGEX "^${header}$")
    list(LENGTH found owners)
    if(NOT owners EQUAL 1 OR NOT header IN_LIST headers)
      message(FATAL_ERROR "include/fovea/${header} must exist and be PUBLIC of one layer, "
        "found ${owners}")
    endif()
  endforeach()
endfunction()

# fovea_component(NAME LAYERS ... [USES COMPONENT...]): a library to install, Fovea::NAME, of these
# layers' objects together.
function(fovea_component name)
  cmake_parse_arguments(ARG "" "" "LAYERS;USES" ${ARGN})
  fovea_parts(ARG_LAYERS objects libs)
  add_library(fovea_component_${name} ${objects})
  add_library(Fovea::${name} ALIAS fovea_component_${name})
  set_target_properties(fovea_component_${name} PROPERTIES OUTPUT_NAME fovea_${name} EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_compile_features(fovea_component_${name} PUBLIC cxx_std_20)
  target_include_directories(fovea_component_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM ARG_USES PREPEND fovea_component_)
  target_link_libraries(fovea_component_${name} PUBLIC ${ARG_USES} PRIVATE ${libs})
  set_property(GLOBAL APPEND PROPERTY fovea_components ${name})
  set_property(GLOBAL APPEND PROPERTY fovea_component_layers ${ARG_LAYERS})
endfunction()

# The objects of some layers, and what they link.
macro(fovea_parts layers objects libs)
  set(${objects})
  set(${libs})
  foreach(layer ${${layers}})
    list(APPEND ${objects} $<TARGET_OBJECTS:fovea_${layer}>)
    get_property(layer_libs GLOBAL PROPERTY fovea_${layer}_libs)
    list(APPEND ${libs} ${layer_libs})
  endforeach()
  list(REMOVE_DUPLICATES ${libs})
endmacro()

# fovea_library(PROGRAM LAYER...): Fovea::fovea, all components. The layers of PROGRAM have no public
# headers: whoever uses the library is spared them and what they link. There may be none.
# fovea_internal is for the program, the tests and the benchmarks: the objects of all layers, always
# as archives, with every layer's headers.
function(fovea_library)
  cmake_parse_arguments(ARG "" "" "PROGRAM" ${ARGN})
  get_property(components GLOBAL PROPERTY fovea_components)
  get_property(layers GLOBAL PROPERTY fovea_component_layers)
  list(REVERSE components)
  list(TRANSFORM components PREPEND fovea_component_)
  add_library(fovea_lib INTERFACE)
  add_library(Fovea::fovea ALIAS fovea_lib)
  set_target_properties(fovea_lib PROPERTIES EXPORT_NAME fovea)
  target_link_libraries(fovea_lib INTERFACE ${components})

  fovea_parts(layers objects libs)
  set(archives ${components})
  if(BUILD_SHARED_LIBS)
    set(archives fovea_archive)
    add_library(fovea_archive STATIC ${objects})
    target_include_directories(fovea_archive PUBLIC ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(fovea_archive PRIVATE ${libs})
  endif()
  add_library(fovea_internal INTERFACE)
  if(ARG_PROGRAM)
    fovea_parts(ARG_PROGRAM program_objects program_libs)
    add_library(fovea_program STATIC ${program_objects})
    target_link_libraries(fovea_program PUBLIC ${archives} PRIVATE ${program_libs})
    target_link_libraries(fovea_internal INTERFACE fovea_program)
  endif()
  list(TRANSFORM layers PREPEND ${CMAKE_BINARY_DIR}/layers/)
  list(TRANSFORM ARG_PROGRAM PREPEND ${CMAKE_BINARY_DIR}/layers/ OUTPUT_VARIABLE program_roots)
  target_include_directories(fovea_internal INTERFACE ${layers} ${program_roots})
  target_link_libraries(fovea_internal INTERFACE ${archives} ${libs} ${program_libs})
endfunction()
