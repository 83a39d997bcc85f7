"""What steps of several batches and several processes cost.

    ./dev bench scale [--launcher openmpi] [--rounds 3]

In one run: eight batches to a step beside as many plain steps; two ranks of a thread each beside one process of
two threads; a step's gradients summed in order beside MPI_Allreduce of as many numbers. A training's time for a
batch is the difference of a long one and a short one, over the difference of their batches; ratios are medians of
rounds, in which both sides take turns."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SHORT, LONG = 16, 80  # batches
TASK = ["lm", "--batch-tokens", "1024", "--blocks", "2", "--query-depth", "128", "--validate-every", "1000000"]


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench scale", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
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
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(self, command, ranks, threads):
        if ranks > 1:
            command = [self.mpirun, *self.flags, "-n", str(ranks), *command]
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


def main():
    options = arguments()
    bench = Bench(options)
    bench.compare("8 batches to a step, beside plain steps", (1, 1, 2), (8, 1, 2))
    if bench.mpirun is None:
        print(f"mpirun.{options.launcher} is not here: nothing to say of several processes")
        return
    bench.compare("2 ranks of 1 thread, beside 1 process of 2 threads", (8, 1, 2), (8, 2, 1))
    for line in bench.run([f"{bench.build}/bench/exchange"], 2, 1).splitlines():
        found = json.loads(line)
        print(f"{found['megabytes']} MB of gradients, in order and gathered: {1000 * found['ordered']:.1f} ms, "
              f"{found['ordered'] / found['allreduce']:.2f} times MPI_Allreduce", flush=True)


if __name__ == "__main__":
    main()
