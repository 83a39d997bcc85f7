# cmake -DSOURCE=… -DOUT=FILE -P snippets.cmake: the C++ of docs/ as one program. Each ```cpp block becomes a
# function, its includes at the top of the file; blocks with a main() of their own are files of the tree that
# quotes.sh compares.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE pages RELATIVE ${SOURCE} ${SOURCE}/docs/*.md)
list(SORT pages)
set(includes "")
set(functions "")
set(calls "")
set(n 0)
foreach(page ${pages})
  file(READ ${SOURCE}/${page} text)
  while(text MATCHES "```cpp\n")
    string(FIND "${text}" "```cpp\n" begin)
    math(EXPR begin "${begin} + 7")
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "\n```" end)
    string(SUBSTRING "${text}" 0 ${end} block)
    string(SUBSTRING "${text}" ${end} -1 text)
    if(block MATCHES "int main\\(")
      continue()
    endif()
    string(REGEX MATCHALL "#include [^\n]+" found "${block}")
    string(REGEX REPLACE "#include [^\n]+" "" block "${block}")
    list(APPEND includes ${found})
    math(EXPR n "${n} + 1")
    string(APPEND functions "\n// ${page}\nvoid snippet_${n}() {\n${block}\n}\n")
    string(APPEND calls "  std::puts(\"${page}\");\n  snippet_${n}();\n")
  endwhile()
endforeach()
list(APPEND includes "#include <cstdio>")
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${OUT} "${includes}

using namespace fovea;
namespace {
${functions}
}  // namespace

int main() {
${calls}  return ${n} > 0 ? 0 : 1;
}
")
