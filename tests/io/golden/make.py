#!/usr/bin/env python3
"""Writes the golden files beside it with the `safetensors` package, or checks a file of ours.

    make.py                write every_dtype.safetensors and same_bytes.safetensors
    make.py --check FILE   FILE, written by save_safetensors, holds what same_bytes.safetensors does
"""
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent


def every_dtype():
    x = torch.tensor([[0.0, -0.0, 1.5], [-2.25, 0.333251953125, 65504.0]])
    special = torch.tensor([float("inf"), float("-inf"), float("nan"), 5.960464477539063e-08])
    tensors = {f"f_{n}": x.to(t) for n, t in FLOATS.items()}
    tensors |= {f"special_{n}": special.to(t) for n, t in FLOATS.items()}
    for name, dtype in INTS.items():
        info = torch.iinfo(dtype)
        most = min(info.max, 2**63 - 1)
        tensors[f"i_{name}"] = torch.tensor([info.min, 0, 1, most], dtype=dtype)
    tensors["bool"] = torch.tensor([[True, False], [False, True]])
    tensors["empty"] = torch.zeros(2, 0)
    tensors["scalar"] = torch.tensor(3.5)
    tensors["ünïcode \"quoted\"\\"] = torch.tensor([7.0])
    return tensors


FLOATS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
INTS = {
    "u8": torch.uint8,
    "i8": torch.int8,
    "u16": torch.uint16,
    "i16": torch.int16,
    "u32": torch.uint32,
    "i32": torch.int32,
    "u64": torch.uint64,
    "i64": torch.int64,
}


def same_bytes():
    return {
        "b": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
        "a": torch.tensor([0.5, -1.0]),
        "ids": torch.tensor([[1, -2], [3, 2**40]]),
        "seen": torch.tensor([True, False, True]),
        "none": torch.zeros(2, 0),
        "one": torch.tensor(-3.25),
    }


def check(path):
    expected = same_bytes()
    found = load_file(path)
    assert found.keys() == expected.keys(), found.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"made by": "a test"}, file.metadata()
    print(f"{path}: as expected")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    else:
        save_file(every_dtype(), HERE / "every_dtype.safetensors", {"a key": "a text"})
        save_file(same_bytes(), HERE / "same_bytes.safetensors", {"made by": "a test"})
