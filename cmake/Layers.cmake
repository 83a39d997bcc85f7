# A layer is a folder under src/ and an object library. It sees itself, the layers it names with USES,
# and the public headers of all layers below it. Each layer's folder, and its public headers, are
# linked into directories of their own that serve as include roots, so that including anything else
# fails to build.

set(FOVEA_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers -Wno-psabi)
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
  add_library(fovea_${name} OBJECT ${sources} ${FOVEA_NOTHING})
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

# fovea_library(LAYERS ... PROGRAM ...)
# The library proper, Fovea::fovea, is the LAYERS' objects together. The layers of PROGRAM have no
# public headers: whoever uses the library is spared them and what they link.
# fovea_internal is for the program, the tests and the benchmarks: all of these objects, always as
# archives, with every layer's headers.
function(fovea_library)
  cmake_parse_arguments(ARG "" "" "LAYERS;PROGRAM" ${ARGN})
  foreach(part LAYERS PROGRAM)
    set(objects_${part})
    set(libs_${part})
    foreach(layer ${ARG_${part}})
      list(APPEND objects_${part} $<TARGET_OBJECTS:fovea_${layer}>)
      get_property(layer_libs GLOBAL PROPERTY fovea_${layer}_libs)
      list(APPEND libs_${part} ${layer_libs})
    endforeach()
    list(REMOVE_DUPLICATES libs_${part})
  endforeach()
  list(TRANSFORM ARG_LAYERS PREPEND ${CMAKE_BINARY_DIR}/layers/ OUTPUT_VARIABLE roots)
  list(TRANSFORM ARG_PROGRAM PREPEND ${CMAKE_BINARY_DIR}/layers/ OUTPUT_VARIABLE program_roots)

  add_library(fovea_lib ${objects_LAYERS})
  add_library(Fovea::fovea ALIAS fovea_lib)
  set_target_properties(fovea_lib PROPERTIES OUTPUT_NAME fovea EXPORT_NAME fovea
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_compile_features(fovea_lib PUBLIC cxx_std_20)
  target_include_directories(fovea_lib PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(fovea_lib PRIVATE ${libs_LAYERS})

  set(archive fovea_lib)
  if(BUILD_SHARED_LIBS)
    set(archive fovea_archive)
    add_library(fovea_archive STATIC ${objects_LAYERS})
    target_include_directories(fovea_archive PUBLIC ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(fovea_archive PRIVATE ${libs_LAYERS})
  endif()
  add_library(fovea_program STATIC ${objects_PROGRAM})
  target_link_libraries(fovea_program PUBLIC ${archive} PRIVATE ${libs_PROGRAM})
  add_library(fovea_internal INTERFACE)
  target_include_directories(fovea_internal INTERFACE ${roots} ${program_roots})
  target_link_libraries(fovea_internal INTERFACE
    fovea_program ${archive} ${libs_LAYERS} ${libs_PROGRAM})
endfunction()
