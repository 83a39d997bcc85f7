#!/usr/bin/env bash
# version.sh SOURCE_DIR VERSION FOVEA: the program says VERSION, the changelog begins with it, and
# documents ask find_package for it.
set -euo pipefail
source_dir=$1 version=$2 fovea=$3
wrong=0

expect() {
  [[ $2 == "$3" ]] && return
  echo "$1: expected $3, found $2"
  wrong=1
}

expect "fovea --version" "$("$fovea" --version)" "$version"
expect "CHANGELOG.md" "$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$source_dir/CHANGELOG.md" | head -n 1)" "$version"
while read -r asked; do
  expect "a document's find_package" "$asked" "${version%.*}"
done < <(grep -rhoE 'find_package\(Fovea [0-9.]+' "$source_dir"/*.md "$source_dir/docs" | grep -oE '[0-9.]+$')
exit $wrong
