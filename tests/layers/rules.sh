#!/usr/bin/env bash
# rules.sh SOURCE_DIR: the rules of the tree that no compiler checks.
set -uo pipefail
cd "$1" || exit 1
wrong=0

# none RULE PATTERN PATH...: no line matches.
none() {
  local rule=$1 pattern=$2
  shift 2
  if grep -rnE --include='*.h' --include='*.cc' --include='*.cu' --include='*.cuh' "$pattern" "$@"; then
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
none "app/ prints by app/print.h alone" \
  '\b(std::cout|std::cerr|std::printf|[^n]printf\(|fprintf\(|puts\(|fmt::print|std::fflush)' \
  $(ls app/*.h app/*.cc | grep -v app/print.cc)
none "threads are the pool's" '#\s*include\s+<(omp\.h|thread|future)>|#\s*pragma\s+omp' \
  include $(ls -d src/*/ | grep -vE '^src/(core|explorer)/')

# one_file NAME HEADERS: a library is behind one seam.
one_file() {
  [[ $(grep -rlE "#\s*include\s+[<\"]$2" src include app | wc -l) -le 1 ]] && return
  grep -rnE "#\s*include\s+[<\"]$2" src include app
  echo "broken: one file includes $1"
  wrong=1
}
one_file utf8proc 'utf8proc'
one_file librsvg 'librsvg/'
one_file libpng 'png\.h'
one_file libjpeg 'jpeglib'
mapfile -t above_kernels < <(ls -d src/*/ | grep -vE '^src/(core|kernels)/')
# src/io reads large files in parts: fresh pages take as long as what is copied into them.
none "work is shared among threads in src/core, src/io and src/kernels" 'parallel_for|\bCrew\b' \
  include $(printf '%s\n' "${above_kernels[@]}" | grep -v '^src/io/') app
none "Highway stays in src/kernels and src/core" '#\s*include\s+[<"]hwy/' \
  include "${above_kernels[@]}" app

# Whoever makes a picture names its kind; whoever shows one does not.
none "who shows pictures knows no kind of them" 'Heatmap|ShadedText|SeenImage|Scanpath|"(heatmap|shaded_text|seen_image|scanpath)' \
  src/explorer src/tasks/page.cc src/tasks/looked.cc src/tasks/train.cc src/report/picture.cc src/report/html.cc \
  $(ls app/*.h app/*.cc | grep -v app/attend_words.cc)

none "CUDA stays in src/cuda and src/nccl" \
  '#\s*include\s+[<"](cuda|cudnn|cublas)[_a-zA-Z0-9]*\.h' \
  include app $(ls -d src/*/ | grep -vE '^src/(cuda|nccl)/')

none "MPI stays in src/mpi" '#\s*include\s+[<"]mpi\.h' include app $(ls -d src/*/ | grep -v '^src/mpi/')
none "NCCL stays in src/nccl" '#\s*include\s+[<"]nccl\.h' include app $(ls -d src/*/ | grep -v '^src/nccl/')

# What a mechanism is called is said in its own file, and by whoever chooses it.
mechanisms=$(ls src/attention/{scores,masks,weightings}/*.cc | xargs -n1 basename -s .cc | paste -sd'|')
none "attend() and the kernels know no mechanism by its name" "^([^/]|/[^/])*\"($mechanisms)[\":]" \
  src/attention/*.h src/attention/*.cc src/kernels/attention src/cuda

# Scripts that nobody runs every day are still scripts.
if command -v python3 >/dev/null && ! python3 - $(find tests bench docs -name '*.py') <<'PYTHON'; then
import ast, sys
broken = 0
for name in sys.argv[1:]:
    try:
        ast.parse(open(name, encoding="utf-8").read())
    except SyntaxError as error:
        broken = 1
        print(f"{name}:{error.lineno}: {error.msg}")
sys.exit(broken)
PYTHON
  echo "broken: every Python file parses"
  wrong=1
fi

# with HEADER FUNCTIONS: who calls one includes the header; some compilers forgive, others do not.
with() {
  local without
  without=$(grep -rlE --include='*.h' --include='*.cc' "std::(ranges::)?($2)\\(" include src app tests bench |
    xargs grep -L "#include <$1>")
  [[ -z $without ]] && return
  printf '%s\n' "$without"
  echo "broken: what uses <$1> includes it"
  wrong=1
}
with algorithm "(stable_|partial_|is_)?sort(ed)?|(any|all|none)_of|find(_if)?|count(_if)?|copy(_n|_if)?|fill(_n)?|transform|(max|min)(_element)?|equal|reverse|unique|(lower|upper)_bound|clamp|nth_element|remove_if|replace|generate|binary_search|mismatch"
with numeric 'iota|accumulate|inner_product'

((wrong == 0)) && echo "all rules hold"
exit $wrong
