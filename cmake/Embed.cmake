# fovea_embed(LAYER FILE...): src/LAYER/page.css is, in the program, the constant
# `const std::string_view page_css` of namespace fovea::LAYER::files, made anew when the file changes;
# `all` has them by name. LAYER/files.h declares what a layer uses. A FILE may be a pattern.

if(CMAKE_SCRIPT_MODE_FILE)  # cmake -DNAMESPACE=… -DOUTPUT=… -DFILES=… -P Embed.cmake
  set(text "#include <span>\n#include <string_view>\n#include <utility>\n\nnamespace ${NAMESPACE} {\n")
  set(table "")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(READ ${file} content)
    string(APPEND text "\nextern const std::string_view ${symbol};\n"
      "const std::string_view ${symbol} = R\"embedded(${content})embedded\";\n")
    string(APPEND table "    {\"${name}\", ${symbol}},\n")
  endforeach()
  string(APPEND text "\nusing Named = std::pair<std::string_view, std::string_view>;\n"
    "static const Named kAll[] = {\n${table}};\n"
    "extern const std::span<const Named> all;\nconst std::span<const Named> all(kAll);\n")
  file(WRITE ${OUTPUT} "${text}\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(FOVEA_EMBED ${CMAKE_CURRENT_LIST_FILE})

function(fovea_embed layer)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/${layer}/)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(output ${CMAKE_BINARY_DIR}/generated/${layer}/files.cc)
  add_custom_command(OUTPUT ${output} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DNAMESPACE=fovea::${layer}::files -DOUTPUT=${output}
      "-DFILES=${files}" -P ${FOVEA_EMBED}
    DEPENDS ${files} ${FOVEA_EMBED})
  target_sources(fovea_${layer} PRIVATE ${output})
endfunction()
