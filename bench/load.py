"""How much of its quiet speed a training keeps on a busy machine, beside PyTorch's in the same
conditions.

    ./dev bench load [--peers torch] [--threads 2] [--seconds 6]

The model is the recurrent translator with attention of `./dev bench translate`, as small as people
train on a laptop: batches of 32 pairs of 15 words, vocabularies of 1,000, width 192. It runs alone,
beside programs that do nothing but take a core, and beside trainings like itself."""

import os
import subprocess
import sys
import tempfile
import threading
import time

from harness import program, tensors
from harness.program import note
from harness.workers import Worker, WorkerError
from translate import Shape, commands_of, make_batches, make_weights

# What is beside the training, and the share of the quiet speed that Fovea has to keep.
CONDITIONS = (("one busy loop", 1, 1, 0.55), ("two busy loops", 2, 1, 0.35),
              ("two trainings, each", 0, 2, 0.60), ("four trainings, each", 0, 4, 0.30))


def arguments():
    parser = program.parser_of("load", __doc__)
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    return program.parse_with_torch(parser)


def shape():
    n = Shape(quick=False)
    n.B, n.T, n.V, n.H, n.steps = 32, 15, 1000, 192, 20
    return n


class BusyLoops:
    def __init__(self, count):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                      for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def steps_per_second(workers, seconds, steps):
    """Of each of these at once, of what they took from the first to the last; the first answer,
    when the others may not have begun, does not count."""
    taken = [[] for _ in workers]
    failures = []
    end = time.monotonic() + seconds

    def train(worker, into):
        try:
            while time.monotonic() < end or len(into) < 2:
                into.append(worker.ask({"train": {"from": 0, "steps": steps}})["ns"])
        except WorkerError as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=pair) for pair in zip(workers, taken)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [sum(map(len, some[1:])) / (sum(map(sum, some[1:])) / 1e9) for some in taken]


def measure(label, command, options, load):
    """{condition: steps a second, of the slowest}"""
    workers = [Worker(command, options.threads) for _ in range(4)]
    try:
        for worker in workers:
            worker.ask({"load": load})
            worker.ask({"train": {"from": 0, "steps": 1}})
            worker.settle()
        speeds = {}
        note(f"{label}: alone")
        before = steps_per_second(workers[:1], options.seconds, 4)[0]
        for name, loops, trainings, _ in CONDITIONS:
            note(f"{label}: {name}")
            with BusyLoops(loops):
                speeds[name] = min(steps_per_second(workers[:trainings], options.seconds, 1))
        note(f"{label}: alone again")
        speeds["alone"] = max(before, steps_per_second(workers[:1], options.seconds, 4)[0])
        return speeds
    finally:
        for worker in workers:
            worker.stop()


def show(results):
    print(f"{'steps a second':24}" + "".join(f"{label:>22}" for label in results))
    print(f"{'alone':24}" + "".join(f"{r['alone']:22.2f}" for r in results.values()))
    for name, *_ in CONDITIONS:
        cells = (f"{r[name]:.2f} = {r[name] / r['alone']:.2f} of it" for r in results.values())
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))


def main():
    options = arguments()
    n = shape()
    report = program.begin(options, f"; B={n.B} T={n.T} V={n.V} H={n.H}")
    results = {}
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        weights, batches = (os.path.join(folder, name) for name in ("weights", "batches"))
        tensors.save(weights, make_weights(n))
        tensors.save(batches, make_batches(n))
        load = {"vocabulary": n.V, "embedding": n.H, "hidden": n.H, "weights": weights,
                "batches": batches, "fused": True}
        try:
            for label, command in commands_of(options):
                results[label] = measure(label, command, options, load)
        except WorkerError as error:
            sys.exit(f"bench: {error}")
    note("")
    show(results)
    short = [f"{name}: too slow" for name, _, _, least in CONDITIONS
             if results["fovea"][name] < least * results["fovea"]["alone"]]
    return program.finish(options, report | {"steps_per_second": results, "too_slow": short}, short)


if __name__ == "__main__":
    sys.exit(main())
