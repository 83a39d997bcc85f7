#!/usr/bin/env bash
# quotes.sh SOURCE_DIR: README and CONTRIBUTING show files of the tree word for word; README lists
# every mechanism there is; links between documents lead somewhere.
set -uo pipefail
cd "$1" || exit 1
wrong=0
broken() {
  echo "broken: $*"
  wrong=1
}

# quotes DOCUMENT FILE: one of the document's code blocks is the file.
quotes() {
  [[ $(<"$1") == *"\`\`\`cpp"$'\n'"$(<"$2")"$'\n'"\`\`\`"* ]] || broken "$1 does not quote $2"
}
quotes README.md examples/attend.cc
quotes CONTRIBUTING.md tests/one_file/gaussian.cc

for file in src/attention/{scores,masks,weightings}/*.cc; do
  name=$(basename "$file" .cc)
  grep -qE "^\| \`$name(:W)?\`" README.md || broken "README.md does not list $name"
done

for document in *.md docs/*.md docs/*/*.md; do
  while read -r target; do
    [[ -e $(dirname "$document")/$target ]] || broken "$document links to $target"
  done < <(grep -oE '\]\([^)#: ]+\)' "$document" | sed 's/^](//; s/)$//')
done

((wrong == 0)) && echo "documents agree with the tree"
exit $wrong
