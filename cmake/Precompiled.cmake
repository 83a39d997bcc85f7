# Headers of others that many files include, compiled once for many targets: reading them is two
# thirds of the time that a small file takes. Not where FOVEA_UNITY is off.

# fovea_precompile(NAME HEADERS ... LIBS ... [OPTIONS ...]): NAME is to be given to
# fovea_precompiled(); what uses it must be compiled with the same LIBS and OPTIONS.
function(fovea_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS;OPTIONS" ${ARGN})
  if(NOT FOVEA_UNITY)
    return()
  endif()
  add_library(${name} OBJECT ${FOVEA_NOTHING})
  target_compile_options(${name} PRIVATE ${FOVEA_WARNINGS} ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

function(fovea_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

set(FOVEA_COMMON_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <fstream>
  <functional> <map> <memory> <numeric> <optional> <set> <span> <sstream> <string> <string_view>
  <vector> <fmt/format.h> <nlohmann/json.hpp>)
