#!/usr/bin/env bash
# package.sh SOURCE_DIR PYTHON FOLDER: pytest on python/tests, with the package from FOLDER.
set -uo pipefail
python=${2:-${FOVEA_TEST_PYTHON:-}}
skip() {
  echo "SKIPPED: $*"
  exit 77
}
[[ -n $python ]] || skip "built without FOVEA_PYTHON, and FOVEA_TEST_PYTHON names no Python that has the package"
export PYTHONPATH=${3:-}${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
for package in pytest numpy fovea; do
  "$python" -c "import $package" 2>/dev/null || skip "$python has no $package"
done
exec "$python" -m pytest -q -p no:cacheprovider "$1/python/tests"
