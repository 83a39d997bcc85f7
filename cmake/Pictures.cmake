# A kind of picture is one file: NAME.cc defines `extern const PictureKind picture_NAME`. From the
# files given (globs welcome), writes generated/report/OUTPUT with the table that report/picture.h
# declares.

function(fovea_picture_table output)
  set(declarations "")
  set(rows "")
  set(count 0)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    if(NOT text MATCHES "extern const PictureKind picture_${stem}")
      message(FATAL_ERROR "${file} defines no `extern const PictureKind picture_${stem}`")
    endif()
    string(APPEND declarations "extern const PictureKind picture_${stem};\n")
    string(APPEND rows "    &picture_${stem},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/report/${output} CONTENT
"#include <array>

#include \"report/picture.h\"

namespace fovea::report {

${declarations}
std::span<const PictureKind* const> picture_table() {
  static constexpr std::array<const PictureKind*, ${count}> kTable = {
${rows}  };
  return kTable;
}

}  // namespace fovea::report
" @ONLY)
endfunction()

set(FOVEA_PICTURES ${CMAKE_SOURCE_DIR}/src/report/pictures/*.cc)
