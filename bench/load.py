"""How much of its quiet speed a training keeps on a busy machine, beside PyTorch's in the same
conditions.

    ./dev bench load [--peers torch] [--threads 2] [--seconds 6]

The model is the recurrent translator with attention of `./dev bench translate`, as small as people
train on a laptop: batches of 32 pairs of 15 words, vocabularies of 1,000, width 192. It runs alone,
beside programs that do nothing but take a core, and beside trainings like itself."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from attention import cpu_name, note, others_share
from harness import tensors
from harness.workers import Worker, WorkerError
from translate import Shape, make_batches, make_weights, peer, save

# What is beside the training, and the share of the quiet speed that Fovea has to keep.
CONDITIONS = (("one busy loop", 1, 1, 0.55), ("two busy loops", 2, 1, 0.35),
              ("two trainings, each", 0, 2, 0.60), ("four trainings, each", 0, 4, 0.30))


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench load", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--peers", default="torch", help="torch, or none")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--json", metavar="FILE", help="default: BUILD/bench/load.json")
    options = parser.parse_args()
    options.json = options.json or os.path.join(options.build, "bench", "load.json")
    if options.peers not in ("torch", "none"):
        parser.error(f"no peer '{options.peers}'; there is torch")
    return options


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


def sides_of(options):
    us = [("fovea", [os.path.join(options.build, "bench", "translate")])]
    return us + (peer() if options.peers == "torch" else [])


def show(results):
    print(f"{'steps a second':24}" + "".join(f"{label:>22}" for label in results))
    print(f"{'alone':24}" + "".join(f"{r['alone']:22.2f}" for r in results.values()))
    for name, *_ in CONDITIONS:
        cells = (f"{r[name]:.2f} = {r[name] / r['alone']:.2f} of it" for r in results.values())
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers are stopped
    options = arguments()
    n = shape()
    busy = others_share()
    print(f"{cpu_name()}, {options.threads} threads; B={n.B} T={n.T} V={n.V} H={n.H}\n")
    results = {}
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        weights, batches = (os.path.join(folder, name) for name in ("weights", "batches"))
        tensors.save(weights, make_weights(n))
        tensors.save(batches, make_batches(n))
        load = {"vocabulary": n.V, "embedding": n.H, "hidden": n.H, "weights": weights,
                "batches": batches, "fused": True}
        try:
            for label, command in sides_of(options):
                results[label] = measure(label, command, options, load)
        except WorkerError as error:
            sys.exit(f"bench: {error}")
    note("")
    show(results)
    if busy > 0.1:
        print(f"NOT A QUIET MACHINE: other programs took {busy:.0%} of it; "
              "shares are not to be relied on")
    short = [name for name, _, _, least in CONDITIONS
             if results["fovea"][name] < least * results["fovea"]["alone"]]
    save(options.json, {"cpu": cpu_name(), "threads": options.threads, "others_share": busy,
                        "steps_per_second": results, "too_slow": short})
    for name in short:
        print(f"TOO SLOW: {name}", file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
