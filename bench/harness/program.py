"""What every benchmark is as a program: its options, its progress, the machine it runs on, how it
ends."""

import argparse
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import time

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")


def at_least(least, kind=int):
    """A type of options: a number from there on."""
    def number(text):
        value = kind(text)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value
    number.__name__ = kind.__name__
    return number


def parser_of(name, doc, quick=None, only=None):
    """The options that all have; --quick and --only where they mean something."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {name}", description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--threads", type=at_least(1), default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help=f"default: BUILD/bench/{name}.json")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    if only:
        parser.add_argument("--only", default="", metavar="TEXT", help=only)
    return parser


def parse(parser, makes_inputs=True):
    """The options given. SIGTERM ends as an error does, so that workers are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parser.parse_args()
    if makes_inputs:
        importlib.import_module("harness.tensors")  # says what is missing before anything is begun
    name = parser.prog.split()[-1]
    options.json = options.json or os.path.join(options.build, "bench", f"{name}.json")
    return options


def parse_with_torch(parser):
    """The same with --peers, where PyTorch is the only one."""
    parser.add_argument("--peers", default="torch", help="torch, or none")
    options = parse(parser)
    if options.peers not in ("torch", "none"):
        parser.error(f"no peer '{options.peers}'; there is torch")
    return options


def peer(script, name="torch", packages="torch numpy"):
    """[(version, command)] of a peer's worker; none where it does not start, and a line that says
    why and how to have it."""
    command = [sys.executable, os.path.join(PEERS, script + ".py")]
    ran = subprocess.run(command + ["--version"], capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return [(ran.stdout.strip(), command)]
    last = (ran.stderr.strip().splitlines() or ["it does not start"])[-1]
    print(f"without {name}: {last}; to have it: python3 -m pip install {packages}")
    return []


def note(message):
    """Progress: one line that is overwritten on a terminal, nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{message[:100]}")
        sys.stderr.flush()


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def others_share(seconds=0.5):
    """The share of all cores that runs something while everyone here waits."""
    def ticks():
        with open("/proc/stat", encoding="ascii") as stat:
            numbers = [int(x) for x in stat.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all, idle
    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def median(values):
    return sorted(values)[len(values) // 2]


def begin(options, more=""):
    """Says where it runs; what a report begins with."""
    report = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "cpu": cpu_name(),
              "threads": options.threads, "others_share": others_share()}
    print(f"{report['cpu']}, {options.threads} threads{more}\n")
    return report


def expect_any(options, measured):
    """Ends, with the last report as it was, where nothing has been measured."""
    if not measured:
        named = f": no case has '{options.only}' in its name" if getattr(options, "only", "") else ""
        sys.exit(f"bench: nothing was measured{named}")


def finish(options, report, faults):
    """Warns, saves, names what is wrong; the program's status."""
    if report["others_share"] > 0.1:
        print(f"NOT A QUIET MACHINE: other programs took {report['others_share']:.0%} of it; "
              "times and ratios are not to be relied on")
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print(f"\nwritten to {options.json}")
    for line in faults:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if faults else 0
