"""Runs ONNX's own cases of its operator Attention through `fovea attend`, and compares the contexts;
and the weights or scores, where a case asks for them.

    python3 tests/onnx/attention_cases.py [--program build/fovea] [--only PART]

Needs onnx 1.23 or later, numpy and safetensors. One line a case, with the options that express it
and the largest error, then `N passed, N failed, N not expressed`. Half-precision cases are computed
in float32 here, and compared as closely as the operator rounds there."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from safetensors.numpy import load_file, save_file

# By the type a case computes in: absolute and relative.
TOLERANCE = {"float32": (1e-5, 1e-5), "float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}
MODES = {0: "scores", 1: "scores", 2: "scores", 3: "weights"}  # qk_matmul_output_mode


class NotExpressed(Exception):
    pass


def all_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases("Attention")
    # The expanded ones are the same numbers through other operators.
    return [c for c in cases
            if re.match("test_attention", c.name) and not c.name.endswith("_expanded")
            and c.model.graph.node[0].op_type == "Attention"]


class Case:
    """The inputs by name as float32, attributes, and what comes out."""

    def __init__(self, case):
        from onnx.helper import get_attribute_value
        node = case.model.graph.node[0]
        inputs, outputs = case.data_sets[0]
        self.name = case.name.removeprefix("test_attention_").removeprefix("test_")
        self.attributes = {a.name: get_attribute_value(a) for a in node.attribute}
        present = [n for n in node.input if n]
        self.given = {n: self.as_float32(x) for n, x in zip(present, inputs)}
        self.wanted = {n: self.as_float32(x) for n, x in zip([n for n in node.output if n], outputs)}
        self.dtype = str(inputs[0].dtype)

    @staticmethod
    def as_float32(x):
        x = np.asarray(x)
        return x if x.dtype == np.bool_ or x.dtype == np.int64 else x.astype(np.float32)


def split_heads(x, heads):
    """[B,L,H·D] → [B,H,L,D]"""
    B, L, width = x.shape
    return x.reshape(B, L, heads, width // heads).transpose(0, 2, 1, 3)


def sequences(case):
    """q, k and v as [B,H,L,D], the past before the new keys and values."""
    given, heads = case.given, case.attributes
    q, k, v = given["Q"], given["K"], given["V"]
    if q.ndim == 3:
        q = split_heads(q, heads["q_num_heads"])
        k, v = (split_heads(x, heads["kv_num_heads"]) for x in (k, v))
    if "past_key" in given:
        k = np.concatenate([given["past_key"], k], 2)
        v = np.concatenate([given["past_value"], v], 2)
    return q, k, v


def position_options(case, Lq, Lk):
    """Who sees whom by position: a query at i + offset sees keys from `left` before to `right` after
    it. → a mask term, or the pairs [B or 1,1,Lq,Lk] where the offset leaves no other way."""
    left = case.attributes.get("left_window_size", -1)
    right = case.attributes.get("right_window_size", -1)
    if case.attributes.get("is_causal"):
        right = 0
    if left < 0 and right < 0:
        return None, None
    lengths = case.given.get("nonpad_kv_seqlen")
    if lengths is None:
        past = case.given["past_key"].shape[2] if "past_key" in case.given else 0
        if left < 0 and past == Lk - Lq:
            return "causal", None
        if past == 0 or left < 0:
            sides = [str(x) if x >= 0 else "inf" for x in (left, right + past if right >= 0 else -1)]
            return "window:" + ",".join(sides), None
        offset = np.full((1, 1, 1), past)
    else:
        offset = lengths.reshape(-1, 1, 1) - Lq
    place = np.arange(Lq).reshape(1, -1, 1) + offset
    key = np.arange(Lk).reshape(1, 1, -1)
    allowed = np.ones((place.shape[0], Lq, Lk), bool)
    if left >= 0:
        allowed &= key >= place - left
    if right >= 0:
        allowed &= key <= place + right
    return None, allowed[:, None]


def express(case):
    """→ tensors for the input file, options"""
    known = {"scale", "is_causal", "q_num_heads", "kv_num_heads", "softcap", "qk_matmul_output_mode",
             "softmax_precision", "left_window_size", "right_window_size"}
    if unknown := set(case.attributes) - known:
        raise NotExpressed("attributes " + ", ".join(sorted(unknown)))
    q, k, v = sequences(case)
    B, _, Lq, _ = q.shape
    Lk = k.shape[2]
    tensors, options, terms = {"q": q, "k": k, "v": v}, [], []

    term, allowed = position_options(case, Lq, Lk)
    if term:
        terms.append(term)
    mask = case.given.get("attn_mask")
    if mask is not None:  # too short: the keys behind it are hidden
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, Lk - mask.shape[-1])]
        mask = np.pad(mask, missing, constant_values=False if mask.dtype == bool else -np.inf)
        if mask.dtype == bool:
            allowed = mask if allowed is None else mask & allowed
        else:
            tensors["bias"] = mask
    if allowed is not None:
        terms.append("matrix")
        tensors["mask"] = allowed
    if "nonpad_kv_seqlen" in case.given:
        terms.append("lengths")
        tensors["lengths"] = case.given["nonpad_kv_seqlen"]

    if terms:
        options += ["--mask", "+".join(terms)]
    for name in ("scale", "softcap"):
        if case.attributes.get(name):
            options += [f"--{name}", f"{case.attributes[name]:.9g}"]
    return tensors, options


def attend(program, tensors, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.safetensors")
        out = os.path.join(folder, "out.safetensors")
        save_file({n: np.ascontiguousarray(x) for n, x in tensors.items()}, path)
        ran = subprocess.run([program, "attend", path, *options, "-o", out], capture_output=True,
                             text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr.strip())
        return load_file(out)


def as_output(context, like):
    """[B,H,L,D] → [B,L,H·D] where the case's output is so."""
    return context if like.ndim == 4 else context.transpose(0, 2, 1, 3).reshape(like.shape)


def scores(program, case, tensors, options):
    """What a case calls qk_matmul_output, by the weighting that leaves scores as they are: the
    product, capped, with the bias and the mask. A hidden key's is −inf there, and 0 here."""
    mode = case.attributes.get("qk_matmul_output_mode", 0)
    mine = dict(tensors)
    if mode < 2:
        mine.pop("bias", None)
        if "--mask" in options:
            at = options.index("--mask")
            options = options[:at] + options[at + 2:]
    if mode < 1 and "--softcap" in options:
        at = options.index("--softcap")
        options = options[:at] + options[at + 2:]
    return attend(program, mine, [*options, "--weighting", "none", "--weights"])["weights"]


def largest_error(found, wanted, dtype):
    """The largest error, and whether all are within bounds."""
    absolute, relative = TOLERANCE[dtype]
    if found.shape != wanted.shape:
        raise RuntimeError(f"shape {found.shape}, expected {wanted.shape}")
    if found.size == 0:
        return 0.0, True
    error = np.abs(found.astype(np.float64) - wanted)
    return float(np.max(error)), bool(np.all(error <= absolute + relative * np.abs(wanted)))


def check(program, case):
    """→ options, largest error, whether it is small enough"""
    tensors, options = express(case)
    inner = case.wanted.get("qk_matmul_output")
    kind = MODES[case.attributes.get("qk_matmul_output_mode", 0)] if inner is not None else None
    out = attend(program, tensors, options + ["--weights"] * (kind == "weights"))
    results = [largest_error(as_output(out["context"], case.wanted["Y"]), case.wanted["Y"],
                             case.dtype)]
    if kind == "weights":
        results.append(largest_error(out["weights"], inner, case.dtype))
    if kind == "scores":
        results.append(largest_error(scores(program, case, tensors, options),
                                     np.where(np.isneginf(inner), 0, inner), case.dtype))
    return options, max(e for e, _ in results), all(good for _, good in results)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", default=os.path.join(here, "..", "..", "build", "fovea"))
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    passed, failed, not_expressed = 0, 0, []
    for case in map(Case, all_cases()):
        if arguments.only not in case.name:
            continue
        try:
            options, error, good = check(arguments.program, case)
            said = f"{error:.1e}  {' '.join(options)}"
        except NotExpressed as why:
            not_expressed.append(case.name)
            print(f"none  {case.name:<58} {why}")
            continue
        except RuntimeError as why:
            said, good = str(why), False
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'}  {case.name:<58} {said}")
    print(f"{passed} passed, {failed} failed, {len(not_expressed)} not expressed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
