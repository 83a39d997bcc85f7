"""What `fovea attend` must refuse: exit code 2, one line on stderr, no output file left behind."""

import os
import subprocess

import torch
from safetensors.torch import save_file


def good():
    return {"q": torch.randn(1, 2, 4, 8), "k": torch.randn(1, 2, 5, 8),
            "v": torch.randn(1, 2, 5, 8), "d_context": torch.randn(1, 2, 4, 8)}


def refused(program, source, folder, options, hint=""):
    out = f"{folder}/refused.safetensors"
    ran = subprocess.run([program, "attend", source, "-o", out, *options], capture_output=True,
                         text=True, check=False)
    faults = []
    if ran.returncode != 2:
        faults.append(f"exit code {ran.returncode}, expected 2")
    if len(ran.stderr.strip().splitlines()) != 1:
        faults.append(f"{len(ran.stderr.strip().splitlines())} lines on stderr, expected 1")
    if hint and hint not in ran.stderr:
        faults.append(f"stderr does not mention '{hint}': {ran.stderr.strip()[:200]}")
    if [name for name in os.listdir(folder) if name.startswith("refused")]:
        faults.append("an output file was left behind")
        os.remove(out)
    return faults


def tensors(change, *options, hint=""):
    """The good input after `change`."""
    def check(program, folder):
        t = good()
        change(t)
        source = f"{folder}/in.safetensors"
        save_file({name: x.contiguous() for name, x in t.items()}, source)
        return refused(program, source, folder, options, hint)
    return check


def file_bytes(change):
    """The good input's file after `change`."""
    def check(program, folder):
        source = f"{folder}/in.safetensors"
        save_file(good(), source)
        with open(source, "rb") as file:
            content = file.read()
        with open(source, "wb") as file:
            file.write(change(content))
        return refused(program, source, folder, [])
    return check


def absent(program, folder):
    return refused(program, f"{folder}/nowhere.safetensors", folder, [])


def replaced(name, shape):
    return lambda t: t.update({name: torch.randn(shape)})


def misuse_checks():
    unchanged = lambda t: None  # noqa: E731
    return [
        ("misuse/unknown score", tensors(unchanged, "--score", "scaled_dott", hint="scaled_dot")),
        ("misuse/unknown mask", tensors(unchanged, "--mask", "casual", hint="causal")),
        ("misuse/unknown weighting", tensors(unchanged, "--weighting", "softmaxx", hint="softmax")),
        ("misuse/unknown plan", tensors(unchanged, "--plan", "fast")),
        ("misuse/window without width", tensors(unchanged, "--mask", "window")),
        ("misuse/widths disagree", tensors(replaced("k", (1, 2, 5, 7)), hint="7")),
        ("misuse/key and value lengths disagree", tensors(replaced("v", (1, 2, 6, 8)), hint="6")),
        ("misuse/batches disagree", tensors(replaced("k", (3, 2, 5, 8)))),
        ("misuse/heads do not divide", tensors(lambda t: t.update(
            q=torch.randn(1, 3, 4, 8)))),
        ("misuse/ranks disagree", tensors(replaced("q", (4, 8)))),
        ("misuse/no v", tensors(lambda t: t.pop("v"), hint="v")),
        ("misuse/no parameter", tensors(unchanged, "--score", "multiplicative", hint="w")),
        ("misuse/parameter of the wrong shape", tensors(
            replaced("w", (8, 9)), "--score", "multiplicative", hint="w")),
        ("misuse/no d_context", tensors(lambda t: t.pop("d_context"), "--grad", hint="d_context")),
        ("misuse/d_context of the wrong shape", tensors(replaced("d_context", (1, 2, 4, 9)), "--grad",
                                                        hint="d_context")),
        ("misuse/no lengths", tensors(unchanged, "--mask", "lengths", hint="lengths")),
        ("misuse/temperature 0", tensors(unchanged, "--temperature", "0", hint="temperature")),
        ("misuse/no such file", absent),
        ("misuse/empty file", file_bytes(lambda content: b"")),
        ("misuse/cut file", file_bytes(lambda content: content[:-2])),
        ("misuse/longer file", file_bytes(lambda content: content + b"xy")),
        ("misuse/broken header", file_bytes(lambda content: content[:8] + b"{" * 40 + content[48:])),
        ("misuse/header length of 2^63", file_bytes(lambda content: b"\xff" * 8 + content[8:])),
    ]
