#!/usr/bin/env bash
# tasks.sh SOURCE_DIR: a task is a folder. No other file of the program names a task, but for the
# one line that says which of them the demo shows.
set -uo pipefail
cd "$1" || exit 1
wrong=0 tried=0

# none RULE PATTERN PATH...: no line matches, the demo's choice apart.
none() {
  local rule=$1 pattern=$2
  shift 2
  if grep -rnE "$pattern" "$@" | grep -vE '^app/demo\.cc:[0-9]+:constexpr const char\* kTask = "\w+";$'; then
    echo "broken: $rule"
    wrong=1
  fi
}

for file in src/tasks/*/task.cc; do
  folder=$(dirname "$file") task=$(basename "$(dirname "$file")")
  mapfile -t others < <(find app src/tasks -type f -not -path "$folder/*")
  none "only src/tasks/$task/ says \"$task\"" "\"$task\"|tasks/$task/|task_$task\b" "${others[@]}"
  tried=$((tried + 1))
done
# This one is no word that the others need, but for models of a hub, some of which translate.
mapfile -t others < <(find app src/tasks -type f -not -path 'src/tasks/translate/*' -not -path 'src/tasks/opened/*')
none "only src/tasks/translate/ says translate" 'translate' "${others[@]}"

[[ $(grep -c 'kTask = ' app/demo.cc) == 1 ]] || {
  echo "broken: the demo's choice is one line"
  wrong=1
}
((tried > 0 && wrong == 0)) && echo "$tried task(s), each in its folder"
((tried > 0 && wrong == 0))
