#!/usr/bin/env bash
# docs/pictures.sh FOVEA WORK: draws docs/pictures/ anew, by the commands of docs/gallery.md in their order, in the
# folder WORK. A run that is there is not trained again. Pictures that the page does not show, that no command
# draws, or that are too large, are errors.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=$(realpath "${1:?docs/pictures.sh FOVEA WORK}") work=${2:?docs/pictures.sh FOVEA WORK}
mkdir -p "$work"
fail() {
  echo "pictures: $*" >&2
  exit 1
}

cd "$work"
rm -f ./*.svg ./*.png
fovea() { "$fovea" "$@"; }
while IFS= read -r line; do
  [[ $line =~ ^"fovea train".*" --out "([^ ]+) && -d ${BASH_REMATCH[1]} ]] && continue
  echo "$line"
  eval "$line" >log 2>&1 || { cat log >&2 && fail "this failed: $line"; }
done < <(sed -n 's/^    \(fovea .*\)/\1/p' "$source/gallery.md")

shopt -s nullglob
drawn=(*.svg *.png)
shown=$(grep -o '](pictures/[^)]*)' "$source/gallery.md" | sed 's/.*pictures.//; s/)//' | sort -u)
[[ $shown == "$(printf '%s\n' "${drawn[@]}" | sort)" ]] ||
  fail "gallery.md shows"$'\n'"$shown"$'\n'"and its commands draw"$'\n'"$(printf '%s\n' "${drawn[@]}" | sort)"
for picture in "${drawn[@]}"; do
  (($(stat -c %s "$picture") < 60000)) || fail "$picture is over 60 KB: $(stat -c %s "$picture")"
done
(($(cat "${drawn[@]}" | wc -c) < 1000000)) || fail "together they are over 1 MB"
rm -rf "$source/pictures"
mkdir "$source/pictures"
cp "${drawn[@]}" "$source/pictures/"
echo "pictures: ${#drawn[@]} drawn, $(cat "${drawn[@]}" | wc -c) bytes"
