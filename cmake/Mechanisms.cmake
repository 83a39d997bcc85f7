# A mechanism is one file: scores/foo.cc defines `extern const ScoreDef score_foo`, and so on for
# MaskDef mask_foo and WeightingDef weighting_foo. From the files given (globs welcome), writes
# generated/attention/OUTPUT with the tables that attention/def.h declares.

function(fovea_tables output)
  set(declarations "")
  foreach(kind Score Mask Weighting)
    set(rows_${kind} "")
    set(count_${kind} 0)
  endforeach()

  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    if(NOT text MATCHES "extern const (Score|Mask|Weighting)Def +((score|mask|weighting)_${stem})")
      message(WARNING "${file} is left out: it defines no `extern const ScoreDef score_${stem}` "
        "(nor MaskDef mask_${stem}, nor WeightingDef weighting_${stem})")
      continue()
    endif()
    set(kind ${CMAKE_MATCH_1})
    set(symbol ${CMAKE_MATCH_2})
    string(APPEND declarations "extern const ${kind}Def ${symbol};\n")
    string(APPEND rows_${kind} "    &${symbol},\n")
    math(EXPR count_${kind} "${count_${kind}} + 1")
  endforeach()

  set(text "#include <array>\n\n#include \"attention/def.h\"\n\nnamespace fovea {\n\n")
  string(APPEND text "${declarations}\n")
  foreach(kind Score Mask Weighting)
    string(TOLOWER ${kind} lower)
    string(APPEND text
      "std::span<const ${kind}Def* const> ${lower}_table() {\n"
      "  static constexpr std::array<const ${kind}Def*, ${count_${kind}}> kTable = {\n"
      "${rows_${kind}}  };\n  return kTable;\n}\n\n")
  endforeach()
  string(APPEND text "}  // namespace fovea\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/attention/${output} CONTENT "${text}" @ONLY)
endfunction()
