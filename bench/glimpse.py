"""The recurrent attention model beside PyTorch's: same weights, same images, same noise, same threads,
one run, taking turns.

    ./dev bench glimpse [--peers torch] [--only TEXT] [--quick]

A step: glimpses, backward, clipped gradients, Adam. Losses are compared while both still look at the
same places: a place is rounded to a pixel, which a last digit may decide."""

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
from translate import median, save

COMPARED_STEPS, LOSS_TOLERANCE = 5, 5e-3  # relative


@dataclass(frozen=True)
class Model:
    canvas: int
    glimpses: int
    sensor: int
    scales: int
    parts: int = 128
    hidden: int = 256
    locator: int = 128
    cell: str = "rnn"


@dataclass(frozen=True)
class Training:
    name: str
    model: Model
    batch: int
    steps: int = 60
    turn: int = 10  # steps before the next side has its turn


TRAININGS = (Training("28 × 28, six glimpses of 8 × 8", Model(28, 6, 8, 1), 20),
             Training("60 × 60, eight glimpses of 12 × 12 × 3", Model(60, 8, 12, 3), 20),
             Training("the same, 128 images", Model(60, 8, 12, 3), 128, 30, 5),
             Training("the same, LSTM", Model(60, 8, 12, 3, cell="lstm"), 128, 20, 5))


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench glimpse", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--peers", default="torch", help="torch or none")
    parser.add_argument("--only", default="", metavar="TEXT", help="trainings with this in their name")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--json", metavar="FILE", help="default: BUILD/bench/glimpse.json")
    options = parser.parse_args()
    options.json = options.json or os.path.join(options.build, "bench", "glimpse.json")
    if options.peers not in ("torch", "none"):
        parser.error(f"no peer '{options.peers}'; there is torch")
    return options


def make_weights(n):
    import numpy as np
    random = np.random.default_rng(1)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[n.cell]
    weights = {}

    def linear(name, out, wide, bias=True, suffix=""):
        weights[f"{name}.weight{suffix}"] = (
            random.standard_normal((out, wide), np.float32) * np.float32(wide ** -0.5))
        if bias:
            weights[f"{name}.bias{suffix}"] = random.standard_normal(out, np.float32) * np.float32(.02)

    linear("see", n.parts, n.scales * n.sensor ** 2)
    linear("where", n.parts, 2)
    linear("join.seen", n.hidden, n.parts)
    linear("join.where", n.hidden, n.parts, bias=False)
    linear("core", gates * n.hidden, n.hidden, suffix="_ih")
    linear("core", gates * n.hidden, n.hidden, suffix="_hh")
    linear("locate", n.locator, n.hidden)
    linear("aim", 2, n.locator)
    linear("baseline", 1, n.hidden)
    linear("output", 10, n.hidden)
    return weights


def make_batches(training):
    """Strokes on black, of which a few pixels in ten are white."""
    import numpy as np
    n, random = training.model, np.random.default_rng(2)
    shape = (training.steps, training.batch, n.canvas, n.canvas)
    images = (random.random(shape, np.float32) > 0.85).astype(np.float32)
    return {"images": images,
            "classes": random.integers(0, 10, shape[:2]).astype(np.int64),
            "noise": random.standard_normal((training.steps, n.glimpses - 1, training.batch, 2),
                                            np.float32)}


class Side:
    def __init__(self, label, command, threads):
        self.label, self.worker = label, Worker(command, threads)
        self.losses, self.ns = [], []

    def ask(self, request):
        answer = self.worker.ask(request)
        self.worker.settle()
        return answer

    def load(self, model, files):
        note(f"{self.label}: loads")
        self.losses, self.ns = [], []
        self.ask({"load": asdict(model) | files})

    def train(self, first, steps):
        note(f"{self.label}: trains from {first}")
        answer = self.ask({"train": {"from": first, "steps": steps}})
        self.losses += answer["losses"]
        self.ns += answer["ns"]


def sides_of(options):
    here = os.path.dirname(os.path.abspath(__file__))
    sides = [Side("fovea", [os.path.join(options.build, "bench", "glimpse")], options.threads)]
    if options.peers == "none":
        return sides
    command = [sys.executable, os.path.join(here, "peers", "glimpse_torch.py")]
    ran = subprocess.run(command + ["--version"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        print("without torch: python3 -m pip install torch numpy gives it")
        return sides
    return sides + [Side(f"torch {ran.stdout.strip()}", command, options.threads)]


def train(training, sides, quick):
    from harness import tensors
    steps = 2 * training.turn if quick else training.steps
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        files = {name: os.path.join(folder, name) for name in ("weights", "batches")}
        tensors.save(files["weights"], make_weights(training.model))
        tensors.save(files["batches"], make_batches(training))
        for side in sides:
            side.load(training.model, files)
        for number, first in enumerate(range(0, steps, training.turn)):
            for side in sides if number % 2 == 0 else sides[::-1]:
                side.train(first, training.turn)
    note("")
    ms = {side.label: median(side.ns) / 1e6 for side in sides}
    result = {"name": training.name, "model": asdict(training.model), "batch": training.batch,
              "sides": {label: {"ms": each, "images_per_second": 1e3 * training.batch / each,
                                "ratio": each / ms["fovea"]} for label, each in ms.items()},
              "losses": {side.label: side.losses for side in sides}, "faults": []}
    for peer in sides[1:]:
        off = max(abs(a - b) / abs(b) for a, b in
                  zip(sides[0].losses[:COMPARED_STEPS], peer.losses[:COMPARED_STEPS]))
        result["sides"][peer.label]["losses_differ"] = off
        if off > LOSS_TOLERANCE:
            result["faults"].append(
                f"{training.name}: a loss differs from that of {peer.label} by {off:.1e} of it")
    return result


def show(result):
    print(f"{result['name']}, {result['batch']} images a step")
    for label, side in result["sides"].items():
        off = side.get("losses_differ")
        print(f"  {label:24}{side['ms']:10.2f} ms a step{side['images_per_second']:10.0f} images/s"
              + (f"{side['ratio']:9.2f}×   losses within {off:.0e}" if off is not None else ""))
    sys.stdout.flush()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers are stopped
    options = arguments()
    busy = others_share()
    print(f"{cpu_name()}, {options.threads} threads\n")
    sides, results = sides_of(options), []
    try:
        for training in TRAININGS:
            if options.only in training.name:
                results.append(train(training, sides, options.quick))
                show(results[-1])
    except WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        for side in sides:
            side.worker.stop()
    if busy > 0.1:
        print(f"NOT A QUIET MACHINE: other programs took {busy:.0%} of it; "
              "times and ratios are not to be relied on")
    save(options.json, {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "cpu": cpu_name(),
                        "threads": options.threads, "others_share": busy, "train": results})
    faults = [line for result in results for line in result["faults"]]
    for line in faults:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
