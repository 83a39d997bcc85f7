"""What steps of several batches and several processes cost.

    ./dev bench scale [steps] [ranks] [exchange] [model] [link] [--launcher openmpi] [--rounds 3]

Without a name, all in one run. steps: eight batches to a step beside as many plain steps. ranks: two of a thread
each beside one process of two threads. exchange: a step's gradients summed in order beside MPI_Allreduce of as many
numbers. model: a step on 1, 2 and 4 ranks of a thread beside what --estimate says of it, from the time of a
batch while as many ranks compute and from the time of messages between them. link: the same of two ranks between
which there are 100 Mbit/s: each in a network namespace of its own (Open MPI, root and iproute2; nothing is left).
A training's time for a batch is the difference of a long one and a short one, over the difference of their
batches; ratios are medians of rounds, in which both sides take turns."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

PARTS = ["steps", "ranks", "exchange", "model", "link"]
SHORT, LONG = 16, 80  # batches
BATCHES = 8  # of a step, where ranks share it
TASK = ["lm", "--batch-tokens", "1024", "--blocks", "2", "--query-depth", "128", "--validate-every", "1000000"]


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench scale", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none: all")
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--launcher", default="openmpi", choices=["openmpi", "mpich"])
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


class Bench:
    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.rounds = options.rounds
        self.mpirun = shutil.which(f"mpirun.{options.launcher}")
        self.flags = ["--oversubscribe", "--bind-to", "none"] if options.launcher == "openmpi" else []
        self.openmpi = options.launcher == "openmpi"
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(self, command, ranks, threads):
        if ranks > 1:
            exported = ["-x", "FOVEA_THREADS"] if self.openmpi else []
            command = [self.mpirun, *self.flags, *exported, "-n", str(ranks), *command]
        done = subprocess.run(command, env={**self.environment, "FOVEA_THREADS": str(threads)}, capture_output=True,
                              text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        return done.stdout

    def batch_seconds(self, batches, ranks, threads):
        seconds = []
        for total in (SHORT, LONG):
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "run")
                self.run([f"{self.build}/fovea", "train", *TASK, "--steps", str(total // batches), "--batches",
                          str(batches), "--out", out], ranks, threads)
                with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
                    seconds.append(json.load(file)["seconds"])
        return (seconds[1] - seconds[0]) / (LONG - SHORT)

    def compare(self, what, one, other):
        """Each is (batches, ranks, threads); how many times as long the second takes."""
        ratios = []
        for _ in range(self.rounds):
            a, b = self.batch_seconds(*one), self.batch_seconds(*other)
            ratios.append(b / a)
            print(f"  {1000 * a:.2f} and {1000 * b:.2f} ms a batch", flush=True)
        print(f"{what}: {statistics.median(ratios):.3f} times as long", flush=True)


    def network(self, ranks):
        if ranks == 1:
            return {"latency": 1e-6, "bandwidth": 1e9}  # nothing is sent
        return json.loads(self.run([f"{self.build}/bench/exchange", "network"], ranks, 1))

    def estimated(self, ranks, network):
        """Seconds of a step that `ranks` share, as --estimate has it."""
        said = self.run([f"{self.build}/fovea", "train", *TASK, "--steps", "1", "--batches", str(BATCHES // ranks),
                         "--estimate", "--bandwidth", str(8e-9 * network["bandwidth"]), "--latency",
                         str(1e6 * network["latency"])], ranks, 1)
        return float(next(line.split()[1] for line in said.splitlines() if line.split()[:1] == [str(ranks)]))

    def check_model(self, ranks):
        ratios = []
        for _ in range(self.rounds):
            network = self.network(ranks)
            estimated = self.estimated(ranks, network)
            measured = BATCHES * self.batch_seconds(BATCHES, ranks, 1)
            ratios.append(estimated / measured)
            print(f"  {1000 * estimated:.0f} ms estimated, {1000 * measured:.0f} ms measured"
                  + (f"; {1e6 * network['latency']:.0f} µs a message, {network['bandwidth'] / 1e6:.0f} MB/s"
                     if ranks > 1 else ""), flush=True)
        print(f"a step of {BATCHES} batches on {ranks} ranks: {statistics.median(ratios):.3f} of it is estimated",
              flush=True)


class Link:
    """Two network namespaces with a bridge between them, each sending at most so many Mbit a second; and an agent
    that starts a launcher's daemons in them."""

    NAMES = ("fovea-a", "fovea-b")

    def __init__(self, megabits):
        self.megabits = megabits
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self):
        bridge = "fovea-br"
        commands = [f"ip link add {bridge} type bridge", f"ip addr add 10.77.0.1/24 dev {bridge}",
                    f"ip link set {bridge} up"]
        for i, name in enumerate(self.NAMES):
            inside = f"ip netns exec {name}"
            commands += [f"ip netns add {name}", f"ip link add {name}-i type veth peer name {name}-o",
                         f"ip link set {name}-i netns {name}", f"ip link set {name}-o master {bridge}",
                         f"ip link set {name}-o up", f"{inside} ip addr add 10.77.0.{i + 2}/24 dev {name}-i",
                         f"{inside} ip link set {name}-i up", f"{inside} ip link set lo up",
                         f"{inside} tc qdisc add dev {name}-i root tbf rate {self.megabits}mbit burst 64kb latency 50ms"]
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True)
            if done.returncode != 0:
                self.__exit__()
                sys.exit(f"{command}: {done.stderr.strip()}")
        agent = os.path.join(self.folder.name, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nhost=$1; shift\nexec ip netns exec "$host" sh -c "$*"\n')
        os.chmod(agent, 0o755)
        return ["--host", ",".join(self.NAMES), "--mca", "plm_rsh_agent", agent, "--mca", "btl", "self,tcp", "--mca",
                "oob_tcp_if_include", "10.77.0.0/24", "--mca", "btl_tcp_if_include", "10.77.0.0/24"]

    def __exit__(self, *_):
        for name in self.NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", "fovea-br"], capture_output=True)
        self.folder.cleanup()


def check_link(bench):
    if not bench.openmpi or os.geteuid() != 0 or shutil.which("tc") is None:
        print("link: it takes Open MPI, root and iproute2")
        return
    with Link(100) as flags:
        usual, bench.flags = bench.flags, [*bench.flags, *flags]
        print("between namespaces, at 100 Mbit/s:")
        bench.check_model(2)
        bench.flags = usual


def main():
    options = arguments()
    parts = options.parts or PARTS
    for part in parts:
        if part not in PARTS:
            sys.exit(f"{part} is none of {', '.join(PARTS)}")
    bench = Bench(options)
    if "steps" in parts:
        bench.compare("8 batches to a step, beside plain steps", (1, 1, 2), (8, 1, 2))
    if bench.mpirun is None:
        print(f"mpirun.{options.launcher} is not here: nothing to say of several processes")
        return
    if "ranks" in parts:
        bench.compare("2 ranks of 1 thread, beside 1 process of 2 threads", (8, 1, 2), (8, 2, 1))
    if "exchange" in parts:
        for line in bench.run([f"{bench.build}/bench/exchange"], 2, 1).splitlines():
            found = json.loads(line)
            print(f"{found['megabytes']} MB of gradients, in order and gathered: {1000 * found['ordered']:.1f} ms, "
                  f"{found['ordered'] / found['allreduce']:.2f} times MPI_Allreduce", flush=True)
    if "model" in parts:
        for ranks in (1, 2, 4):
            bench.check_model(ranks)
    if "link" in parts:
        check_link(bench)


if __name__ == "__main__":
    main()
