"""What a type checker knows of the package: py.typed, the stubs of the modules, its own annotations."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

import fovea

USE = """
import fovea
x: object = ...
found: fovea.Attended = fovea.attend(x, x, x, mask="causal", lengths=[3])
plan: str = found.plan
keys = found.top(3).keys
n: int = fovea.threads()
names: list[str] = [one["name"] for one in fovea.scores()]
fovea.attend(1, 2)
fovea.set_threads("two")
found.wights()
"""
MISTAKES = {9: 'Missing positional argument "v"', 10: 'expected "int"', 11: 'has no attribute "wights"'}


def mypy(folder, *arguments):
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), *arguments],
                          capture_output=True, text=True, timeout=1200, cwd=folder)
    return done.stdout + done.stderr


def test_a_small_use_and_its_mistakes(tmp_path):
    use = tmp_path / "use.py"
    use.write_text(USE)
    errors = [line for line in mypy(tmp_path, str(use)).splitlines() if ": error:" in line]
    assert len(errors) == len(MISTAKES), errors
    for error, (line, said) in zip(errors, MISTAKES.items()):
        assert f"use.py:{line}:" in error and said in error


def test_the_package_itself(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("without torch there is nothing to check fovea.torch by")
    # A copy: a checker is silent about what is installed.
    shutil.copytree(pathlib.Path(fovea.__file__).parent, tmp_path / "fovea",
                    ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    said = mypy(tmp_path, "--ignore-missing-imports", "-p", "fovea")
    assert "Success" in said, said
