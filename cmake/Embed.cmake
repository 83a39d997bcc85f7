# fovea_embed(LAYER FILE...): src/LAYER/page.css is, in the program, the constant
# `const std::string_view page_css` of namespace fovea::LAYER::files, made anew when the file changes.
# LAYER/files.h declares what a layer embeds.

if(CMAKE_SCRIPT_MODE_FILE)  # cmake -DNAMESPACE=… -DOUTPUT=… -DFILES=… -P Embed.cmake
  set(text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(READ ${file} content)
    string(APPEND text "\nextern const std::string_view ${symbol};\n"
      "const std::string_view ${symbol} = R\"embedded(${content})embedded\";\n")
  endforeach()
  file(WRITE ${OUTPUT} "${text}\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(FOVEA_EMBED ${CMAKE_CURRENT_LIST_FILE})

function(fovea_embed layer)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/${layer}/)
  set(output ${CMAKE_BINARY_DIR}/generated/${layer}/files.cc)
  add_custom_command(OUTPUT ${output} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DNAMESPACE=fovea::${layer}::files -DOUTPUT=${output}
      "-DFILES=${ARGN}" -P ${FOVEA_EMBED}
    DEPENDS ${ARGN} ${FOVEA_EMBED})
  target_sources(fovea_${layer} PRIVATE ${output})
endfunction()
