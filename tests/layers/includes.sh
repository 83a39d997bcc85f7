#!/usr/bin/env bash
# includes.sh COMPILER ROOTS LAYERS: in each layer, with its own include path, one file that includes a
# header of every layer whose headers it may include, and a public one where it may include those, and that
# finds no other. ROOTS are the folders that cmake/Layers.cmake makes; LAYERS has lines `layer|layers whose
# headers it may include|layers whose public headers it may include|-I...`.
set -euo pipefail
compiler=$1 roots=$2 layers=$3
wrong=0 tried=0

first() { (cd -- "$1" && find -L "$2" -name '*.h' 2>/dev/null | sort | head -n 1); }

declare -A own public
while IFS='|' read -r other _; do
  own[$other]=$(first "$roots/$other" "$other")
  public[$other]=$(first "$roots/public/$other" fovea)
done <"$layers"

# line HEADER OF ALLOWED: what a file says of HEADER, of the layer OF.
line() {
  [[ -z $1 ]] && return
  tried=$((tried + 1))
  if [[ " $3 " == *" $2 "* ]]; then
    text+="#include \"$1\""$'\n'
  else
    text+="#if __has_include(\"$1\")"$'\n'"#error $1 can be included"$'\n'"#endif"$'\n'
  fi
}

while IFS='|' read -r layer uses below flags; do
  text=
  for other in "${!own[@]}"; do
    line "${own[$other]}" "$other" "$uses"
    line "${public[$other]}" "$other" "$below"
  done
  # shellcheck disable=SC2086
  if ! "$compiler" -std=c++20 $flags -x c++ -E -o /dev/null - <<<"$text"; then
    echo "src/$layer: see above"
    wrong=$((wrong + 1))
  fi
done <"$layers"

echo "$tried includes tried in ${#own[@]} layers, $wrong wrong"
((tried > 0 && wrong == 0))
