"""The recurrent translator with attention beside PyTorch's: same weights, same batches, same
threads, one run, taking turns.

    ./dev bench translate [--peers torch] [--threads 2] [--device cuda [--graph]] [--quick]

Training: batches of 64 pairs of 30 words, vocabularies of 10,000, width 512 throughout, Adam with
clipped gradients. Decoding: greedy, one sentence at a time, 30 words."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from attention import cpu_name, note, others_share
from harness.workers import Worker, WorkerError

LOSS_TOLERANCE = 1e-3
SAME_SENTENCES = 0.9  # a share: a near tie may fall either way and changes all that follows
DISTINCT_SENTENCES = 0.5  # a share: fewer, and that they are the same says little
END = 3


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench translate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--peers", default="torch", help="torch, or none")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for both sides")
    parser.add_argument("--quick", action="store_true", help="a smaller model and fewer turns")
    parser.add_argument("--unfused", action="store_true", help="PyTorch's Adam as it is by default")
    parser.add_argument("--graph", action="store_true", help="PyTorch's steps as a CUDA graph")
    parser.add_argument("--without-fovea", action="store_true", help="the peer alone")
    parser.add_argument("--json", metavar="FILE", help="default: BUILD/bench/translate.json")
    options = parser.parse_args()
    options.json = options.json or os.path.join(options.build, "bench", "translate.json")
    if options.peers not in ("torch", "none"):
        parser.error(f"no peer '{options.peers}'; there is torch")
    return options


class Shape:
    def __init__(self, quick):
        self.B, self.T, self.V, self.H = (8, 10, 500, 64) if quick else (64, 30, 10000, 512)
        self.steps, self.turn = (8, 2) if quick else (20, 5)
        self.sentences = 8 if quick else 40


def make_weights(n):
    """Uniform by fan-in, as layers commonly start; embeddings wide enough that what is decoded
    depends on the source; never the end token, so that decoding takes the same number of words
    everywhere."""
    import numpy as np
    random = np.random.default_rng(1)

    def matrix(rows, columns):
        limit = columns ** -0.5
        return random.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    def vector(size):
        return random.uniform(-0.05, 0.05, size).astype(np.float32)

    H, weights = n.H, {}
    for side in ("source", "target"):
        weights[f"{side}.weight"] = random.standard_normal((n.V, H), np.float32)
    for name, width, suffix in (("encoder", H, "_l0"), ("encoder", H, "_l0_reverse"),
                                ("decoder.0", 3 * H, "")):
        for part, columns in (("ih", width), ("hh", H)):
            weights[f"{name}.weight_{part}{suffix}"] = matrix(3 * H, columns)
            weights[f"{name}.bias_{part}{suffix}"] = vector(3 * H)
    weights |= {"score.w_q": matrix(H, H), "score.w_k": matrix(H, 2 * H),
                "score.u": matrix(1, H)[0], "score.b": vector(H)}
    for name, rows, columns in (("initial.0", H, 2 * H), ("readout", H, 4 * H), ("output", n.V, H)):
        weights[f"{name}.weight"] = matrix(rows, columns)
        weights[f"{name}.bias"] = vector(rows)
    weights["output.bias"][END] = -1e4
    return weights


def make_batches(n):
    """Words by Zipf's law; the target is the source read backwards."""
    import numpy as np
    random = np.random.default_rng(2)
    p = 1 / np.arange(1, n.V - 3)
    words = random.choice(np.arange(4, n.V), (n.steps, n.T, n.B), p=p / p.sum()).astype(np.int64)
    out = np.ascontiguousarray(words[:, ::-1])
    begin = np.full((n.steps, 1, n.B), 2, np.int64)
    return {"source": words, "target_in": np.concatenate((begin, out[:, :-1]), 1),
            "target_out": out}


class Side:
    def __init__(self, label, worker):
        self.label, self.worker = label, worker
        self.losses, self.step_ns, self.tokens, self.sentence_ns = [], [], [], []

    def ask(self, request):
        answer = self.worker.ask(request)
        self.worker.settle()
        return answer

    def train(self, first, steps):
        answer = self.ask({"train": {"from": first, "steps": steps}})
        self.losses += answer["losses"]
        self.step_ns += answer["ns"]

    def decode(self, first, count, longest):
        answer = self.ask({"decode": {"from": first, "count": count, "longest": longest}})
        self.tokens += answer["tokens"]
        self.sentence_ns += answer["ns"]

    def result(self):
        return {"step_ms": median(self.step_ns) / 1e6,
                "sentence_ms": median(self.sentence_ns) / 1e6, "step_ns": self.step_ns,
                "sentence_ns": self.sentence_ns, "losses": self.losses}


def distinct_of(side):
    return len({tuple(tokens) for tokens in side.tokens})


def median(values):
    return sorted(values)[len(values) // 2]


def peer():
    """(label, command) of PyTorch's worker, or nothing, with a line that says how to have it."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, os.path.join(here, "peers", "seq2seq_torch.py")]
    ran = subprocess.run(command + ["--version"], capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return [(f"torch {ran.stdout.strip()}", command)]
    print("without torch: python3 -m pip install torch numpy gives it")
    return []


def save(path, report):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print(f"\nwritten to {path}")


def sides_of(options):
    sides = []
    if not options.without_fovea:
        program = os.path.join(options.build, "bench", "translate")
        sides.append(Side("fovea", Worker([program], options.threads)))
    if options.peers == "torch":
        sides += [Side(label, Worker(command, options.threads)) for label, command in peer()]
    return sides


def measure(options, sides, n):
    from harness import tensors
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        weights, batches = (os.path.join(folder, name) for name in ("weights", "batches"))
        tensors.save(weights, make_weights(n))
        tensors.save(batches, make_batches(n))
        load = {"vocabulary": n.V, "embedding": n.H, "hidden": n.H, "weights": weights,
                "batches": batches, "fused": not options.unfused, "graph": options.graph,
                "device": options.device}
        for side in sides:
            note(f"{side.label}: loads")
            side.ask({"load": load})
        rest = n.sentences // 4
        for first in range(0, n.sentences, rest):  # before training: weights are the same
            for side in sides if first // rest % 2 == 0 else sides[::-1]:
                note(f"{side.label}: decodes from {first}")
                side.decode(first, rest, n.T)
        for first in range(0, n.steps, n.turn):
            for side in sides if first // n.turn % 2 == 0 else sides[::-1]:
                note(f"{side.label}: trains from {first}")
                side.train(first, n.turn)
    note("")


def faults_of(us, peer):
    faults = []
    for step, (a, b) in enumerate(zip(us.losses, peer.losses)):
        if not abs(a - b) <= LOSS_TOLERANCE:
            faults.append(f"loss of step {step + 1}: {a:.6f}, {peer.label} has {b:.6f}")
    same = sum(a == b for a, b in zip(us.tokens, peer.tokens)) / len(us.tokens)
    if same < SAME_SENTENCES:
        faults.append(f"only {same:.0%} of the sentences decoded are those of {peer.label}")
    distinct = distinct_of(us) / len(us.tokens)
    if distinct < DISTINCT_SENTENCES:
        faults.append(f"only {distinct:.0%} of the sentences decoded differ from one another")
    return faults


def show(sides):
    print(f"{'':24}{'training, ms a step':>22}{'decoding, ms a sentence':>26}"
          "   loss, first and last")
    for side in sides:
        result = side.result()
        print(f"{side.label:24}{result['step_ms']:22.1f}{result['sentence_ms']:26.2f}"
              f"   {side.losses[0]:.4f} {side.losses[-1]:.4f}")
    if len(sides) == 2:
        us, peer = (side.result() for side in sides)
        print(f"{'ratio':24}{peer['step_ms'] / us['step_ms']:21.2f}×"
              f"{peer['sentence_ms'] / us['sentence_ms']:25.2f}×")
        worst = max(abs(a - b) for a, b in zip(sides[0].losses, sides[1].losses))
        same = sum(a == b for a, b in zip(sides[0].tokens, sides[1].tokens))
        print(f"losses of {len(sides[0].losses)} steps differ by at most {worst:.1e}; "
              f"{same} of {len(sides[0].tokens)} sentences are the same, "
              f"{distinct_of(sides[0])} of them distinct")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers are stopped
    options = arguments()
    n = Shape(options.quick)
    sides = sides_of(options)
    busy = others_share()
    print(f"{cpu_name()}, {options.threads} threads; B={n.B} T={n.T} V={n.V} H={n.H}\n")
    try:
        measure(options, sides, n)
    except WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        for side in sides:
            side.worker.stop()
    show(sides)
    faults = faults_of(*sides) if len(sides) == 2 else []
    if busy > 0.1:
        print(f"NOT A QUIET MACHINE: other programs took {busy:.0%} of it; "
              "times and ratios are not to be relied on")
    save(options.json, {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "cpu": cpu_name(),
                        "threads": options.threads, "others_share": busy,
                        "sides": {side.label: side.result() for side in sides}, "faults": faults})
    for line in faults:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
