"""Convolution beside PyTorch's: same inputs, same threads, one run, taking turns.

    ./dev bench convolution [--peers torch] [--only TEXT] [--quick]

Outputs and gradients are compared before anything is timed. PyTorch is asked twice, with planes as
they come and with channels last; a ratio is to the faster of the two."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

from attention import cpu_name, note, others_share
from harness.workers import Worker, WorkerError
from translate import save

TOLERANCE = 2e-5  # of the largest element
PASSES = {"forward": 2, "both": 6}  # operations for each multiply-add of the forward pass
PATHS = ("planes", "channels last")


@dataclass(frozen=True)
class Case:
    name: str
    N: int
    C: int
    side: int
    O: int
    K: int = 3
    stride: int = 1
    pad: int = 1
    groups: int = 1

    def out(self):
        return (self.side + 2 * self.pad - self.K) // self.stride + 1

    def shapes(self):
        return {"x": (self.N, self.C, self.side, self.side),
                "w": (self.O, self.C // self.groups, self.K, self.K),
                "d_y": (self.N, self.O, self.out(), self.out())}

    def multiply_adds(self):
        return self.N * self.O * self.out() ** 2 * self.C // self.groups * self.K ** 2


CASES = (Case("first layer, 28 × 28", 32, 1, 28, 32),
         Case("first layer, 64 × 64 in colour", 32, 3, 64, 32, 5, 1, 2),
         Case("32 channels, 28 × 28", 32, 32, 28, 32),
         Case("64 channels, 16 × 16", 32, 64, 16, 64),
         Case("64 channels, 56 × 56", 8, 64, 56, 64),
         Case("128 channels, 14 × 14", 32, 128, 14, 128),
         Case("64 to 128, every second place", 32, 64, 28, 128, 3, 2, 1),
         Case("256 to 64, 1 × 1", 32, 256, 14, 64, 1, 1, 0),
         Case("one image, 64 channels, 56 × 56", 1, 64, 56, 64))


class Side:
    def __init__(self, label, command, path, threads):
        self.label, self.path, self.worker = label, path, Worker(command, threads)
        self.ns = []

    def ask(self, request):
        note(f"{self.label}: {request['case']['name']}")
        answer = self.worker.ask(request | {"path": self.path})
        self.worker.settle()
        return answer


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench convolution", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--peers", default="torch", help="torch or none")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--json", metavar="FILE", help="default: BUILD/bench/convolution.json")
    options = parser.parse_args()
    options.json = options.json or os.path.join(options.build, "bench", "convolution.json")
    if options.peers not in ("torch", "none"):
        parser.error(f"no peer '{options.peers}'; there is torch")
    return options


def sides_of(options):
    here = os.path.dirname(os.path.abspath(__file__))
    sides = [Side("fovea", [os.path.join(options.build, "bench", "convolution")], "",
                  options.threads)]
    if options.peers == "none":
        return sides
    command = [sys.executable, os.path.join(here, "peers", "convolution_torch.py")]
    ran = subprocess.run(command + ["--version"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        print("without torch: python3 -m pip install torch numpy gives it")
        return sides
    return sides + [Side(f"torch {ran.stdout.strip()}, {path}", command, path, options.threads)
                    for path in PATHS]


def make_inputs(case):
    import numpy as np
    random = np.random.default_rng(1)
    return {name: random.standard_normal(shape, np.float32)
            for name, shape in case.shapes().items()}


def faults_of(case, which, files, sides):
    from harness import tensors
    ours, lines = tensors.load(files[sides[0].label]), []
    for peer in sides[1:]:
        for name, theirs in tensors.load(files[peer.label]).items():
            off = tensors.difference(ours[name], theirs, relative=True)
            if not off <= TOLERANCE:
                lines.append(f"{case.name}, {which}: {name} differs from that of {peer.label} by "
                             f"{off:.1e} of its largest")
    return lines


def run(case, which, sides, rounds):
    from harness import tensors
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        inputs = os.path.join(folder, "inputs")
        tensors.save(inputs, make_inputs(case))
        request = {"case": asdict(case), "pass": which, "inputs": inputs}
        files = {side.label: os.path.join(folder, f"outputs{i}") for i, side in enumerate(sides)}
        for side in sides:
            side.ask(request | {"outputs": files[side.label], "reps": 0})
        faults = faults_of(case, which, files, sides)
        best = {side.label: float("inf") for side in sides}
        for number in range(rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                ns = side.ask(request | {"reps": 3, "seconds": 0.25})["ns"]
                best[side.label] = min(best[side.label], sorted(ns)[len(ns) // 2])
    note("")
    return {"case": asdict(case), "pass": which, "ns": best, "faults": faults}


def show(result, case):
    times = result["ns"]
    ours, peers = times["fovea"], {k: v for k, v in times.items() if k != "fovea"}
    rate = PASSES[result["pass"]] * case.multiply_adds() / ours
    line = f"{case.name:34}{result['pass']:9}{ours / 1e6:9.3f} ms{rate:8.1f} GFLOP/s"
    if peers:
        best = min(peers, key=peers.get)
        result["ratio"] = peers[best] / ours
        line += f"{result['ratio']:8.2f} × {best}, {peers[best] / 1e6:.3f} ms"
    print(line, flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers are stopped
    options = arguments()
    busy = others_share()
    print(f"{cpu_name()}, {options.threads} threads\n")
    sides, results = sides_of(options), []
    try:
        for case in CASES:
            for which in PASSES if options.only in case.name else ():
                results.append(run(case, which, sides, 2 if options.quick else 5))
                show(results[-1], case)
    except WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        for side in sides:
            side.worker.stop()
    for which in PASSES:
        ratios = [r["ratio"] for r in results if r["pass"] == which and "ratio" in r]
        if ratios:
            product = 1.0
            for ratio in ratios:
                product *= ratio
            print(f"{which}: {product ** (1 / len(ratios)):.2f} × in the geometric mean, "
                  f"{min(ratios):.2f} at least")
    if busy > 0.1:
        print(f"NOT A QUIET MACHINE: other programs took {busy:.0%} of it; "
              "times and ratios are not to be relied on")
    save(options.json, {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "cpu": cpu_name(),
                        "threads": options.threads, "others_share": busy, "cases": results})
    faults = [line for result in results for line in result["faults"]]
    for line in faults:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
