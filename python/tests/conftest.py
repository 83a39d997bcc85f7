"""The tests of the package as it is installed: `pytest python/tests`."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attention"))  # oracle.py: the formulas in float64
os.environ.setdefault("FOVEA_THREADS", "2")
