# Librsvg::Librsvg: librsvg and the Cairo it draws with, as pkg-config knows them.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_LIBRSVG QUIET IMPORTED_TARGET librsvg-2.0>=2.52 cairo)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Librsvg REQUIRED_VARS PC_LIBRSVG_FOUND
  VERSION_VAR PC_LIBRSVG_librsvg-2.0_VERSION)

if(Librsvg_FOUND AND NOT TARGET Librsvg::Librsvg)
  add_library(Librsvg::Librsvg INTERFACE IMPORTED)
  target_link_libraries(Librsvg::Librsvg INTERFACE PkgConfig::PC_LIBRSVG)
  # Without -pthread, which means nothing to these headers: precompiled ones are made without.
  get_target_property(options PkgConfig::PC_LIBRSVG INTERFACE_COMPILE_OPTIONS)
  if(options)
    list(REMOVE_ITEM options -pthread)
    set_target_properties(PkgConfig::PC_LIBRSVG PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")
  endif()
endif()
