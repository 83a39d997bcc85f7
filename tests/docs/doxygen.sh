#!/usr/bin/env bash
# doxygen.sh SOURCE_DIR OUT: makes the C++ reference; every header has its page, and comments are on it. Skipped where
# there is no doxygen.
set -euo pipefail
command -v doxygen >/dev/null || { echo "doxygen is not installed: nothing was checked" && exit 77; }
cd "$1"
mkdir -p "$2"
(cat docs/Doxyfile && echo "OUTPUT_DIRECTORY = $2") | doxygen - >"$2/log" 2>&1 || { cat "$2/log" && exit 1; }
shopt -s nullglob
wrong=0
for header in include/fovea/*.h; do
  name=$(basename "$header" .h)
  [[ $name == api || -f $2/html/${name//_/__}_8h.html ]] || { echo "no page of $name.h" && wrong=1; }
done
grep -q "Views (reshape of a" "$2"/html/classfovea_1_1Tensor.html || { echo "the comment of Tensor is not on its page" && wrong=1; }
((wrong == 0)) && echo "$(ls "$2"/html/*.html | wc -l) pages in $2/html"
exit $wrong
