#!/usr/bin/env bash
# includes.sh COMPILER SOURCE_DIR LAYERS: from each layer, with its own include path, tries to
# include a header of every layer. LAYERS has lines `layer|layers it may include|-I...`.
set -euo pipefail
compiler=$1 source_dir=$2 layers=$3
wrong=0 tried=0

while IFS='|' read -r layer allowed flags; do
  while IFS='|' read -r other _ _; do
    header=$(cd "$source_dir/src" && find "$other" -name '*.h' | sort | head -n 1)
    [[ -n $header ]] || continue
    expected=refused
    [[ " $allowed " == *" $other "* ]] && expected=accepted
    found=refused
    # shellcheck disable=SC2086
    echo "#include \"$header\"" | "$compiler" -std=c++20 $flags -x c++ -E -o /dev/null - 2>/dev/null &&
      found=accepted
    tried=$((tried + 1))
    if [[ $found != "$expected" ]]; then
      echo "src/$layer including $header: expected $expected, found $found"
      wrong=$((wrong + 1))
    fi
  done <"$layers"
done <"$layers"

echo "$tried includes tried, $wrong wrong"
((tried > 0 && wrong == 0))
