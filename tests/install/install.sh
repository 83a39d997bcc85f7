#!/usr/bin/env bash
# install.sh CMAKE BUILD CONSUMERS WORK GENERATOR COMPILER: installs BUILD into WORK/prefix, checks
# what lies there, and builds and runs programs of somebody else's with find_package(Fovea):
# CONSUMERS/whole, and CONSUMERS/engine where SentencePiece and utf8proc cannot be found.
set -euo pipefail
cmake=$1 build=$2 consumers=$3 work=$4 generator=$5 compiler=$6
prefix=$work/prefix
without_text=(-DCMAKE_DISABLE_FIND_PACKAGE_SentencePiece=ON -DCMAKE_DISABLE_FIND_PACKAGE_Utf8proc=ON)

fail() {
  echo "$*"
  exit 1
}

# configure NAME FOLDER [OPTION...]
configure() {
  local name=$1 folder=$2
  shift 2
  "$cmake" -S "$consumers/$name" -B "$work/$folder" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release "$@" >"$work/$folder.log" 2>&1
}

# consumer NAME [OPTION...]: configured, built and run.
consumer() {
  configure "$1" "$@" || { cat "$work/$1.log"; fail "$1 cannot be configured"; }
  "$cmake" --build "$work/$1" >"$work/$1.log" || { cat "$work/$1.log"; fail "$1 cannot be built"; }
  "$work/$1/consumer"
}

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"

others=$(find "$prefix/include" -type f ! -path "$prefix/include/fovea/*.h")
[[ -z $others ]] || fail "installed headers besides include/fovea: $others"
if grep -rnE '^\s*#\s*(if|ifdef|ifndef)\b|#\s*include\s+(<[^>]*[./][^>]*>|"[^"]*")' \
  "$prefix/include" | grep -v '#include "fovea/'; then
  fail "a public header has conditional compilation or a third-party header"
fi

consumer whole
consumer engine "${without_text[@]}"
if ldd "$work/engine/consumer" | grep -E 'sentencepiece|utf8proc'; then
  fail "the engine alone links what only text needs"
fi
configure whole refused "${without_text[@]}" && fail "all components were found without SentencePiece"
grep -q SentencePiece "$work/refused.log" || fail "what is missing is not said: see $work/refused.log"
