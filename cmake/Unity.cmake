# Files of a folder, some together: most of the time that a small file takes is for headers and
# templates that its neighbours need too. So a name in an unnamed namespace is unique in its folder.
# For clang-tidy and for fuzzing FOVEA_UNITY is off: file by file a missing include shows.
set(FOVEA_UNITY_FILES 9)  # together: a change in one of them compiles as many

# fovea_unity(TARGET SOURCE...). Files of a kind, which all define the same names (papers, pictures),
# stay by themselves.
function(fovea_unity target)
  if(NOT FOVEA_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    if(folder MATCHES "/(papers|pictures)$")
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" key)
    math(EXPR count_${key} "${count_${key}}+1")
    math(EXPR batch "(${count_${key}}-1)/${FOVEA_UNITY_FILES}")
    get_filename_component(name ${folder} NAME)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${name}_${batch}")
  endforeach()
endfunction()
