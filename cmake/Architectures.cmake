# An architecture is one file: NAME.cc defines `extern const Architecture architecture_NAME`. From the
# files given (globs welcome), writes generated/checkpoints/OUTPUT with the table that
# checkpoints/architecture.h declares.

function(fovea_architecture_table output)
  set(declarations "")
  set(rows "")
  set(count 0)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    if(NOT text MATCHES "extern const Architecture architecture_${stem}")
      message(FATAL_ERROR "${file} defines no `extern const Architecture architecture_${stem}`")
    endif()
    string(APPEND declarations "extern const Architecture architecture_${stem};\n")
    string(APPEND rows "    &architecture_${stem},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/checkpoints/${output} CONTENT
"#include <array>

#include \"checkpoints/architecture.h\"

namespace fovea::checkpoints {

${declarations}
std::span<const Architecture* const> architecture_table() {
  static constexpr std::array<const Architecture*, ${count}> kTable = {
${rows}  };
  return kTable;
}

}  // namespace fovea::checkpoints
" @ONLY)
endfunction()
