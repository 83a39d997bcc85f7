"""The recurrent attention model beside PyTorch's: same weights, same images, same noise, same threads,
one run, taking turns.

    ./dev bench glimpse [--peers torch] [--only TEXT] [--quick]

A step: glimpses, backward, clipped gradients, Adam. Losses are compared while both still look at the
same places: a place is rounded to a pixel, which a last digit may decide."""

import os
import sys
import tempfile
from dataclasses import asdict, dataclass

from harness import program, workers
from harness.program import median, note

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


class Side(workers.Side):
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
    sides = [Side("fovea", [os.path.join(options.build, "bench", "glimpse")], options.threads)]
    peers = program.peer("glimpse_torch") if options.peers == "torch" else ()
    return sides + [Side(f"torch {version}", command, options.threads)
                    for version, command in peers]


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
            for side in workers.in_turn(sides, number):
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
    options = program.parse_with_torch(program.parser_of(
        "glimpse", __doc__, quick="fewer turns", only="trainings with this in their name"))
    report = program.begin(options)
    sides, results = sides_of(options), []
    try:
        for training in TRAININGS:
            if options.only in training.name:
                results.append(train(training, sides, options.quick))
                show(results[-1])
    except workers.WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        workers.stop(sides)
    program.expect_any(options, results)
    return program.finish(options, report | {"train": results},
                          [line for result in results for line in result["faults"]])


if __name__ == "__main__":
    sys.exit(main())
