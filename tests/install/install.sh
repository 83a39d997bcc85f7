#!/usr/bin/env bash
# install.sh CMAKE BUILD CONSUMER WORK GENERATOR COMPILER: installs BUILD into WORK/prefix, checks
# what lies there, and builds and runs CONSUMER with find_package(Fovea).
set -euo pipefail
cmake=$1 build=$2 consumer=$3 work=$4 generator=$5 compiler=$6
prefix=$work/prefix

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"

others=$(find "$prefix/include" -type f ! -path "$prefix/include/fovea/*.h")
[[ -z $others ]] || { echo "installed headers besides include/fovea: $others"; exit 1; }
if grep -rnE '^\s*#\s*(if|ifdef|ifndef)\b|#\s*include\s+(<[^>]*[./][^>]*>|"[^"]*")' \
  "$prefix/include" | grep -v '#include "fovea/'; then
  echo "a public header has conditional compilation or a third-party header"
  exit 1
fi

"$cmake" -S "$consumer" -B "$work/consumer" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/consumer" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/consumer/consumer"
