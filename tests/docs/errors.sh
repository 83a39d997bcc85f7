#!/usr/bin/env bash
# errors.sh SOURCE_DIR: what docs/faq.md quotes of errors, in the first column of its table, is in the sources.
set -euo pipefail
cd "$1"
wrong=0 count=0
while IFS= read -r quoted; do
  count=$((count + 1))
  # The words of a message may stand on several lines of a file: a few of them suffice.
  piece=$(cut -d' ' -f1-4 <<<"$quoted")
  grep -rqF -- "$piece" src app CMakeLists.txt || { echo "docs/faq.md quotes '$quoted', which no source says" && wrong=1; }
done < <(sed -n '/^## Errors/,$p' docs/faq.md | grep '^| .*`.*|' | sed 's/^| *//; s/ |.*//' | grep -o '`[^`]*`' | tr -d '`' |
  grep -vE '^(Address already in use|No CMAKE_CXX_COMPILER|Could NOT find)$')
((wrong == 0)) && echo "$count quoted errors are said somewhere"
exit $wrong
