"""What a type checker knows of the package: py.typed, the stubs of the modules, its own annotations."""

import importlib.util
import pathlib
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
"""


def checked(folder, text):
    (folder / "use.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", str(folder / "cache"),
                           "use.py"], capture_output=True, text=True, cwd=folder, timeout=300,
                          env={"MYPYPATH": str(pathlib.Path(fovea.__file__).parents[1])})
    return done.stdout + done.stderr


def test_a_small_use(tmp_path):
    assert "Success" in checked(tmp_path, USE)


@pytest.mark.parametrize("line, wrong", [
    ("fovea.attend(1, 2)", 'Missing positional argument "v"'),
    ('fovea.set_threads("two")', 'expected "int"'),
    ("fovea.attend(1, 2, 3).wights()", 'has no attribute "wights"'),
])
def test_mistakes_are_found(tmp_path, line, wrong):
    assert wrong in checked(tmp_path, "import fovea\n" + line + "\n")


def test_the_package_itself(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("without torch there is nothing to check fovea.torch by")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", str(tmp_path),
                           "--ignore-missing-imports", "-p", "fovea"], capture_output=True, text=True,
                          cwd=pathlib.Path(fovea.__file__).parents[1], timeout=600)
    assert "Success" in done.stdout, done.stdout + done.stderr
