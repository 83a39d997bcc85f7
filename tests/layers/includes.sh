#!/usr/bin/env bash
# includes.sh COMPILER ROOTS LAYERS: from each layer, with its own include path, tries to include a
# header of every layer, and a public one of every layer that has some. ROOTS are the folders that
# cmake/Layers.cmake makes; LAYERS has lines `layer|layers whose headers it may include|layers whose
# public headers it may include|-I...`.
set -euo pipefail
compiler=$1 roots=$2 layers=$3
wrong=0 tried=0

# try LAYER HEADER OF ALLOWED FLAGS: whether HEADER, of the layer OF, is found exactly where OF is ALLOWED.
try() {
  local layer=$1 header=$2 of=$3 allowed=$4 flags=$5 expected=refused found=refused
  [[ " $allowed " == *" $of "* ]] && expected=accepted
  # shellcheck disable=SC2086
  echo "#include \"$header\"" | "$compiler" -std=c++20 $flags -x c++ -E -o /dev/null - 2>/dev/null &&
    found=accepted
  tried=$((tried + 1))
  [[ $found == "$expected" ]] && return
  echo "src/$layer including $header: expected $expected, found $found"
  wrong=$((wrong + 1))
}

first() { (cd -- "$1" && find -L "$2" -name '*.h' 2>/dev/null | sort | head -n 1); }

while IFS='|' read -r layer uses below flags; do
  while IFS='|' read -r other _; do
    header=$(first "$roots/$other" "$other")
    [[ -z $header ]] || try "$layer" "$header" "$other" "$uses" "$flags"
    header=$(first "$roots/public/$other" fovea)
    [[ -z $header ]] || try "$layer" "$header" "$other" "$below" "$flags"
  done <"$layers"
done <"$layers"

echo "$tried includes tried, $wrong wrong"
((tried > 0 && wrong == 0))
