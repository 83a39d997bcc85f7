# What is one file (a mechanism, a kind of picture, an architecture, a task, a paper) defines a constant,
# `extern const PictureKind picture_NAME`. From such files the functions here write
# generated/OUTPUT with the tables that headers declare: KIND_table(), pointers to the constants.
# (Objects that register themselves would be dropped from a static library.)

# A row more, for fovea_write_tables() in the same function: FILE must define TYPE KIND_NAME.
macro(fovea_table_row kind type name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  if(NOT text MATCHES "extern const ${type} +${kind}_${name}")
    message(FATAL_ERROR "${file} defines no `extern const ${type} ${kind}_${name}`")
  endif()
  string(APPEND declarations "extern const ${type} ${kind}_${name};\n")
  string(APPEND rows_${kind} "    &${kind}_${name},\n")
endmacro()

# fovea_write_tables(OUTPUT NAMESPACE HEADERS ... TABLES KIND TYPE ...)
macro(fovea_write_tables output namespace)
  cmake_parse_arguments(ARG "" "" "HEADERS;TABLES" ${ARGN})
  set(text "#include <span>\n\n")
  foreach(header ${ARG_HEADERS})
    string(APPEND text "#include \"${header}\"\n")
  endforeach()
  string(APPEND text "\nnamespace ${namespace} {\n\n${declarations}\n")
  while(ARG_TABLES)
    list(POP_FRONT ARG_TABLES kind type)
    string(APPEND text
      "std::span<const ${type}* const> ${kind}_table() {\n"
      "  static constexpr const ${type}* kTable[] = {\n"
      "${rows_${kind}}  };\n  return kTable;\n}\n\n")
  endwhile()
  string(APPEND text "}  // namespace ${namespace}\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${output} CONTENT "${text}" @ONLY)
endmacro()

# Scores, masks and weightings, of attention/def.h: scores/foo.cc defines ScoreDef score_foo, and so on
# for MaskDef and WeightingDef. FILES may be globs.
function(fovea_mechanism_tables output)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    file(READ ${file} text)
    if(NOT text MATCHES "extern const ((Score|Mask|Weighting)Def) +(score|mask|weighting)_${stem}")
      message(WARNING "${file} is left out: it defines no `extern const ScoreDef score_${stem}` "
        "(nor MaskDef mask_${stem}, nor WeightingDef weighting_${stem})")
      continue()
    endif()
    fovea_table_row(${CMAKE_MATCH_3} ${CMAKE_MATCH_1} ${stem} ${file})
  endforeach()
  fovea_write_tables(attention/${output} fovea HEADERS attention/def.h
    TABLES score ScoreDef mask MaskDef weighting WeightingDef)
endfunction()

# Kinds of picture, of report/picture.h. FILES may be globs.
function(fovea_picture_table output)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    fovea_table_row(picture PictureKind ${stem} ${file})
  endforeach()
  fovea_write_tables(report/${output} fovea::report HEADERS report/picture.h TABLES picture PictureKind)
endfunction()

# Architectures, of checkpoints/architecture.h. FILES may be globs.
function(fovea_architecture_table output)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    fovea_table_row(architecture Architecture ${stem} ${file})
  endforeach()
  fovea_write_tables(checkpoints/${output} fovea::checkpoints HEADERS checkpoints/architecture.h
    TABLES architecture Architecture)
endfunction()

# Tasks and papers, of tasks/task.h and tasks/paper.h. A task is a folder: NAME/task.cc defines
# task_NAME, and each NAME/papers/P.cc paper_P; papers of no task are in a folder papers/ of their own.
function(fovea_task_tables output)
  foreach(folder ${ARGN})
    get_filename_component(name ${folder} NAME)
    set(of_papers ${folder})
    if(NOT name STREQUAL "papers")
      set(of_papers ${folder}/papers)
      fovea_table_row(task Task ${name} ${folder}/task.cc)
    endif()
    file(GLOB files CONFIGURE_DEPENDS ${of_papers}/*.cc)
    foreach(file ${files})
      get_filename_component(stem ${file} NAME_WE)
      fovea_table_row(paper Paper ${stem} ${file})
    endforeach()
  endforeach()
  fovea_write_tables(tasks/${output} fovea::tasks HEADERS tasks/paper.h tasks/task.h
    TABLES task Task paper Paper)
endfunction()

set(FOVEA_PICTURES ${CMAKE_SOURCE_DIR}/src/report/pictures/*.cc)

# The folders under src/tasks that are tasks, and the papers of none.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/tasks/*/task.cc)
set(FOVEA_TASKS ${CMAKE_SOURCE_DIR}/src/tasks/papers)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  list(APPEND FOVEA_TASKS ${folder})
endforeach()
