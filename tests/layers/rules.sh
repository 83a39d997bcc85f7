#!/usr/bin/env bash
# rules.sh SOURCE_DIR: the rules of the tree that no compiler checks.
set -uo pipefail
cd "$1" || exit 1
wrong=0

# none RULE PATTERN PATH...: no line matches.
none() {
  local rule=$1 pattern=$2
  shift 2
  if grep -rnE --include='*.h' --include='*.cc' "$pattern" "$@"; then
    echo "broken: $rule"
    wrong=1
  fi
}

none "public headers have no conditional compilation" '^\s*#\s*(if|ifdef|ifndef|elif)\b' include
none "public headers include only the standard library and themselves" \
  '^\s*#\s*include\s+("[^f]|"f[^o]|<[^>]*[./][^>]*>)' include
none "no includes by relative path" '^\s*#\s*include\s+"\.\.?/' include src app
none "nothing below app/ prints or exits" \
  '\b(std::cout|std::cerr|std::printf|[^n]printf\(|fprintf\(|puts\(|fmt::print|std::exit|[^_a-z]exit\(|abort\(\))' \
  src
none "threads are the pool's" '#\s*include\s+<(omp\.h|thread|future)>|#\s*pragma\s+omp' \
  include src/kernels src/tensor src/attention src/nn src/models src/train src/text src/image src/report
none "Highway stays in src/kernels and src/core" '#\s*include\s+[<"]hwy/' \
  include src/tensor src/attention src/io app

((wrong == 0)) && echo "all rules hold"
exit $wrong
