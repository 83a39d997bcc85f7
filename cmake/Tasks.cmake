# A task is a folder: NAME/task.cc defines `extern const Task task_NAME`, and each NAME/papers/P.cc
# `extern const Paper paper_P`; papers of no task are in a folder papers/ of their own. From the folders given, writes generated/tasks/OUTPUT with the
# tables that tasks/task.h and tasks/paper.h declare. (Objects that register themselves would be
# dropped from a static library.)

function(fovea_task_tables output)
  foreach(kind Task Paper)
    set(rows_${kind} "")
    set(count_${kind} 0)
  endforeach()
  set(declarations "")

  foreach(folder ${ARGN})
    get_filename_component(name ${folder} NAME)
    if(name STREQUAL papers)
      file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cc)
    else()
      file(GLOB files CONFIGURE_DEPENDS ${folder}/papers/*.cc)
      list(PREPEND files ${folder}/task.cc)
    endif()
    foreach(file ${files})
      set(kind Task)
      set(symbol task_${name})
      if(NOT file STREQUAL ${folder}/task.cc)
        get_filename_component(stem ${file} NAME_WE)
        set(kind Paper)
        set(symbol paper_${stem})
      endif()
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      file(READ ${file} text)
      if(NOT text MATCHES "extern const ${kind} ${symbol}")
        message(FATAL_ERROR "${file} defines no `extern const ${kind} ${symbol}`")
      endif()
      string(APPEND declarations "extern const ${kind} ${symbol};\n")
      string(APPEND rows_${kind} "    &${symbol},\n")
      math(EXPR count_${kind} "${count_${kind}} + 1")
    endforeach()
  endforeach()

  set(text "#include <array>\n\n#include \"tasks/paper.h\"\n#include \"tasks/task.h\"\n\n")
  string(APPEND text "namespace fovea::tasks {\n\n${declarations}\n")
  foreach(kind Task Paper)
    string(TOLOWER ${kind} lower)
    string(APPEND text
      "std::span<const ${kind}* const> ${lower}_table() {\n"
      "  static constexpr std::array<const ${kind}*, ${count_${kind}}> kTable = {\n"
      "${rows_${kind}}  };\n  return kTable;\n}\n\n")
  endforeach()
  string(APPEND text "}  // namespace fovea::tasks\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/tasks/${output} CONTENT "${text}" @ONLY)
endfunction()

# The folders under src/tasks that are tasks, and the papers of none.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tasks/*/task.cc)
set(FOVEA_TASKS ${CMAKE_SOURCE_DIR}/src/tasks/papers)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  list(APPEND FOVEA_TASKS ${folder})
endforeach()
