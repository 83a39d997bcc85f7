"""Convolution beside PyTorch's: same inputs, same threads, one run, taking turns.

    ./dev bench convolution [--peers torch] [--only TEXT] [--quick]

Outputs and gradients are compared before anything is timed. PyTorch is asked twice, with planes as
they come and with channels last; a ratio is to the faster of the two."""

import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass

from harness import program, workers
from harness.program import median, note

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


class Side(workers.Side):
    def __init__(self, label, command, path, threads):
        super().__init__(label, command, threads)
        self.path = path

    def ask(self, request):
        note(f"{self.label}: {request['case']['name']}")
        return super().ask(request | {"path": self.path})


def sides_of(options):
    sides = [Side("fovea", [os.path.join(options.build, "bench", "convolution")], "",
                  options.threads)]
    for version, command in program.peer("convolution_torch") if options.peers == "torch" else ():
        sides += [Side(f"torch {version}, {path}", command, path, options.threads)
                  for path in PATHS]
    return sides


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
            for side in workers.in_turn(sides, number):
                ns = side.ask(request | {"reps": 3, "seconds": 0.25})["ns"]
                best[side.label] = min(best[side.label], median(ns))
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


def show_means(results):
    for which in PASSES:
        ratios = [r["ratio"] for r in results if r["pass"] == which and "ratio" in r]
        if ratios:
            print(f"{which}: {statistics.geometric_mean(ratios):.2f} × in the geometric mean, "
                  f"{min(ratios):.2f} at least")


def main():
    options = program.parse_with_torch(program.parser_of(
        "convolution", __doc__, quick="fewer turns", only="cases with this in their name"))
    report = program.begin(options)
    sides, results = sides_of(options), []
    try:
        for case in CASES:
            for which in PASSES if options.only in case.name else ():
                results.append(run(case, which, sides, 2 if options.quick else 5))
                show(results[-1], case)
    except workers.WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        workers.stop(sides)
    program.expect_any(options, results)
    show_means(results)
    return program.finish(options, report | {"cases": results},
                          [line for result in results for line in result["faults"]])


if __name__ == "__main__":
    sys.exit(main())
