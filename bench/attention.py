"""Fovea's attention beside its peers: same inputs, same threads, one run, taking turns.

    ./dev bench attention [--peers torch,onnxruntime,jax] [--threads 2] [--only PATTERN] [--quick]

docs/benchmarks.md says how to read what it prints."""

import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

from harness import floors, program, sides, table
from harness.program import cpu_name, note, others_share
from harness.workers import ISAS, Worker, WorkerError, in_turn

OURS_WIDE = "fovea float32"


def arguments():
    parser = program.parser_of("attention", __doc__, quick="fewer and shorter rounds",
                               only="cases whose name has this in it, or matches this shell pattern")
    parser.add_argument("--peers", default=",".join(sides.PEERS),
                        help="which to compare with, or none (default: those installed)")
    parser.add_argument("--isa", choices=sorted(ISAS),
                        help="hold everyone to these instructions (default: the best there are)")
    parser.add_argument("--pass", dest="which", choices=("forward", "both"),
                        help="one pass only (both: forward and backward)")
    parser.add_argument("--type", choices=("f32", "bf16"), default="f32",
                        help="of queries, keys and values; bf16 runs beside Fovea's float32 too")
    parser.add_argument("--rounds", type=program.at_least(1), help="turns each side takes (default 5, quick 2)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown too")
    parser.add_argument("--from", dest="source", metavar="FILE",
                        help="run nothing: print the Markdown table of an earlier run's JSON")
    options = program.parse(parser, makes_inputs=False)  # its workers make their own
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = 0.08 if options.quick else 0.25
    options.peers = [p for p in options.peers.split(",") if p and p != "none"]
    unknown = set(options.peers) - set(sides.PEERS)
    if unknown:
        parser.error(f"no peer '{unknown.pop()}'; there are {', '.join(sides.PEERS)}")
    if options.type != "f32" and importlib.util.find_spec("numpy") is None:
        parser.error(f"--type {options.type} is held against float64 by numpy, which is not installed")
    return options


def wanted(name, pattern):
    return not pattern or pattern in name or fnmatch.fnmatch(name, pattern)


class Side:
    """One implementation of one case: a worker and what to ask it."""

    def __init__(self, label, worker, request):
        self.label, self.worker, self.request = label, worker, request
        self.rounds, self.first, self.failed, self.error = [], None, None, None

    def begin(self, outputs, timeout):
        """The first call: loads, compiles, warms up, writes its outputs."""
        try:
            self.first = self.worker.ask(self.request | {"outputs": outputs, "reps": 1}, timeout)
        except WorkerError as error:
            self.failed = str(error)
        self.worker.settle()

    def take_turn(self, seconds):
        if self.failed:
            return
        slow = self.first["ns"][0] > 1e9 * seconds * 4
        try:
            answer = self.worker.ask(self.request | {"seconds": seconds, "reps": 1 if slow else 3})
            self.rounds.append(answer["median_ns"] / 1e9)
        except WorkerError as error:
            self.failed = str(error)
        self.worker.settle()

    @property
    def seconds(self):
        """The best round's median: rounds that something else disturbed do not count, and no
        single lucky call does."""
        return min(self.rounds) if self.rounds and not self.failed else None


class Bench:
    def __init__(self, options):
        self.options = options
        self.fovea = Worker([os.path.join(options.build, "bench", "attention")], options.threads,
                            options.isa)
        self.wide = Worker([os.path.join(options.build, "bench", "attention")], options.threads,
                           options.isa)
        self.narrow = options.type != "f32"
        self.versions, self.workers = {}, {}
        self.faults, self.skipped = [], []
        self.machine = {}

    def find_peers(self):
        for peer in self.options.peers:
            if self.options.isa and peer in sides.OWN_ISA:
                print(f"without {peer}: it cannot be held to {self.options.isa}")
                continue
            if self.narrow and peer not in sides.NARROW:
                print(f"without {peer}: it is not asked for {self.options.type}")
                continue
            for version, command in program.peer(f"{peer}_peer", peer, sides.GET[peer]):
                self.versions[peer] = version
                self.workers[peer] = Worker(command, self.options.threads, self.options.isa)

    def measure_machine(self, cases):
        sizes = {floors.cache_bytes(c) for c in cases if c["group"] == "decode"}
        bandwidth = {}
        for size in sorted(sizes) + [512 << 20]:
            answer = self.fovea.ask({"machine": {"bytes": size}})
            bandwidth[size] = answer["bytes_per_second"]
        self.machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "threads": answer["threads"],
                        "isa": answer["isa"], "version": answer["version"],
                        "flops": answer["flops"], "flops_lowest": answer["flops_lowest"],
                        "flops_stable": answer["flops_stable"], "bandwidth": bandwidth}

    def sides_of(self, case, which, inputs):
        kind = {"type": self.options.type}
        request = {"case": case["name"], "pass": which} | ({"inputs": inputs} if inputs else {})
        all_sides = [Side("fovea", self.fovea, request | kind)]
        if self.narrow:
            all_sides.append(Side(OURS_WIDE, self.wide, request))
        for peer, worker in self.workers.items():
            for path in sides.paths(peer, case, which):
                label = f"{peer} {path}"
                why = sides.too_large(path, case, which)
                if why:
                    self.skipped.append(f"{case['name']} {table.PASS[which]}, {label}: {why}")
                    continue
                all_sides.append(Side(label, worker, kind | {"case": case, "pass": which,
                                                             "path": path, "inputs": inputs}))
        return all_sides

    def run(self, case, which):
        self.wide.stop()
        self.fovea.stop()  # each case in a process of its own: resident memory starts from nothing
        with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
            inputs = ""
            if (self.workers or self.narrow) and case["group"] not in sides.OWN_GROUPS:
                from harness import tensors  # numpy is there when a peer is, and asked for by --type
                inputs = os.path.join(folder, "inputs.safetensors")
                made = tensors.make_inputs(case)
                tensors.save(inputs, tensors.rounded(made) if self.narrow else made)
            all_sides = self.sides_of(case, which, inputs)
            self.first_calls(case, which, all_sides, folder)
        self.take_turns(case, which, all_sides)
        return self.row(case, which, all_sides)

    def first_calls(self, case, which, all_sides, folder):
        ours = ""
        for side in all_sides:
            note(f"{case['name']} {table.PASS[which]}: {side.label}, first call")
            outputs = os.path.join(folder, "outputs.safetensors") if len(all_sides) > 1 else ""
            side.begin(outputs, 300)
            if side.failed or not outputs:
                continue
            if self.narrow:
                from harness import tensors
                side.error = tensors.context_error(
                    tensors.load(os.path.join(folder, "inputs.safetensors")),
                    tensors.load(outputs), case["mask"] == "causal")
            if side.label == "fovea":
                ours = os.path.join(folder, "fovea.safetensors")
                os.rename(outputs, ours)
            if ours:
                self.compare(case, which, side, ours, outputs, folder)

    def compare(self, case, which, side, ours, theirs, folder):
        from harness import tensors
        if case["weighting"] == "sample":
            inputs = tensors.load(os.path.join(folder, "inputs.safetensors"))
            result = tensors.load(ours if side.label == "fovea" else theirs)
            lines = tensors.sampling_faults(inputs, result)
        elif side.label == "fovea":
            return
        else:
            lines = tensors.disagreements(tensors.load(ours), tensors.load(theirs), self.narrow)
        self.faults += [f"{case['name']} {table.PASS[which]}, {side.label}: {x}" for x in lines]

    def take_turns(self, case, which, all_sides):
        for turn in range(self.options.rounds):
            for side in in_turn(all_sides, turn):
                note(f"{case['name']} {table.PASS[which]}: {side.label}, round {turn + 1}")
                side.take_turn(self.options.seconds)

    def row(self, case, which, all_sides):
        us, peers = all_sides[0], [s for s in all_sides[1:] if s.label != OURS_WIDE]
        for side in all_sides:
            if side.failed:
                line = f"{case['name']} {table.PASS[which]}, {side.label}: {side.failed}"
                (self.faults if side is us else self.skipped).append(line)
        if us.failed:
            return None
        row = {"case": case["name"], "group": case["group"], "pass": which,
               "plan": us.first["plan"], "seconds": us.seconds, "rounds": us.rounds,
               "rate": floors.rate(case, which, us.seconds),
               "peak_bytes": us.first["peak_bytes"], "resident_bytes": us.first["resident_bytes"],
               "peers": {s.label: {"seconds": s.seconds, "rounds": s.rounds,
                                   "resident_bytes": s.first["resident_bytes"]}
                         for s in peers if not s.failed}}
        if self.narrow:
            wide = all_sides[1]
            row["errors"] = {s.label: s.error for s in all_sides if s.error is not None}
            if not wide.failed:
                row["float32_seconds"] = wide.seconds
                row["float32_ratio"] = wide.seconds / us.seconds
        floor = None if self.narrow else floors.floor_seconds(case, which, self.machine)
        if floor:
            row["floor_share"] = floor / us.seconds
        if row["peers"]:
            best = min(row["peers"], key=lambda label: row["peers"][label]["seconds"])
            row["best_peer"], row["ratio"] = best, row["peers"][best]["seconds"] / us.seconds
        return row

    def stop(self):
        for worker in [self.fovea, self.wide, *self.workers.values()]:
            worker.stop()


def selected(options, cases):
    for case in cases:
        for which in ("forward", "both"):
            if which == "both" and case["backward"] == "none":
                continue
            if options.type != "f32" and case["group"] not in sides.DOT_GROUPS:
                continue
            if wanted(case["name"], options.only) and options.which in (None, which):
                yield case, which


def run_all(options):
    ours = os.path.join(options.build, "bench", "attention")
    listed = subprocess.run([ours, "--list"], capture_output=True, text=True, check=True)
    chosen = list(selected(options, json.loads(listed.stdout)))
    program.expect_any(options, chosen)
    bench = Bench(options)
    rows = []
    try:
        bench.find_peers()
        bench.measure_machine([case for case, _ in chosen])
        print_machine(bench)
        print(table.text_line(table.COLUMNS))
        busy = []
        for number, (case, which) in enumerate(chosen):
            if number % 8 == 0:
                busy.append(others_share())
            row = bench.run(case, which)
            note("")
            if row:
                rows.append(row)
                print(table.text_line(table.cells(row)), flush=True)
    finally:
        bench.stop()
    report = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": bench.machine,
              "type": options.type,
              "others_share": max(busy), "peers": bench.versions, "rows": rows, "groups": table.groups(rows),
              "skipped": bench.skipped, "faults": bench.faults}
    return report


def clock(machine):
    """What to think of the peak: bursts of the same work, until the last of them agree."""
    if not machine["flops_stable"]:
        return (f" (THE CLOCK MOVES: bursts from {machine['flops_lowest'] / 1e9:.0f} on, never "
                "five alike; shares of the peak are not to be relied on)")
    if machine["flops_lowest"] < 0.9 * machine["flops"]:
        return f" (the clock moved: the slowest burst had {machine['flops_lowest'] / 1e9:.0f})"
    return ""


def print_machine(bench):
    machine = bench.machine
    print(f"{machine['cpu']}, {machine['threads']} threads, {machine['isa']}: "
          f"{machine['flops'] / 1e9:.0f} GFLOP/s at most{clock(machine)}, "
          f"{machine['bandwidth'][512 << 20] / 1e9:.0f} GB/s from memory")
    peers = ", ".join(f"{name} {version}" for name, version in bench.versions.items())
    print(f"Fovea {machine['version']} beside {peers or 'no peer'}\n")


def finish(options, report):
    print(table.summary_text(report["rows"]))
    print(table.narrow_text(report["rows"]), end="")
    for line in report["skipped"]:
        print(f"skipped: {line}")
    if options.markdown:
        print("\n" + table.markdown(report))
    return program.finish(options, report, report["faults"])


def main():
    options = arguments()
    if options.source:
        with open(options.source, encoding="utf-8") as file:
            print(table.markdown(json.load(file)))
        return 0
    return finish(options, run_all(options))


if __name__ == "__main__":
    sys.exit(main())
