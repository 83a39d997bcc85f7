#!/usr/bin/python3
"""Training by several processes, under real launchers: ranks.py PROGRAM WORK PART… [--launcher NAME]… [--times N]

PROGRAM is build/fovea, WORK a folder that is made anew. Parts: equal (every task, on 2, 3, 4 and 8 ranks, against
one process without MPI: logs, weights, states and predictions are equal to the byte), verbs (the same of eval,
faithful and reproduce, on 1 to 4 ranks), quick (less of both), killed (at random instants, one rank or all, and
resumed with another number of ranks, N times), failing (what goes wrong is said, and ends everything), attention
(a sequence over 1 to 4 ranks, by tests/attend_ranks beside PROGRAM: the same bits, memory by the rank). Launchers:
openmpi, mpich; without a name, those that are there. Exits
with 77 where there is none.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SIZES = {
    "examples": 100, "hidden": 8, "embedding": 6, "features": 8, "parts": 6, "locator": 4, "glimpses": 3, "grid": 2,
    "clutter": 2, "blocks": 1, "heads": 2, "head-depth": 4, "query-depth": 8, "context": 16, "height": 16,
    "longest": 12, "batch-tokens": 150, "batch-words": 300, "batch-images": 8, "valid-images": 3, "valid-sentences": 3,
}
# Dropout, hard attention, batch norm, which image and caption have anyway, and windows that ranks share.
CHANGED = {
    "translate": [["--dropout", "0.2", "--average", "0.9"], ["--weighting", "sample"], ["--model", "transformer"]],
    "caption": [["--weighting", "sample", "--dropout", "0.2"]],
    "image": [["--dropout", "0.3", "--optimizer", "sgd"]],
    "documents": [["--dropout", "0.2", "--optimizer", "adamw"]],
    "lm": [["--context-ranks", "--context=70", "--dropout", "0.2", "--average", "0.9"],
           ["--context-ranks", "--context=100", "--positions", "t5"]],
}


class Launcher:
    def __init__(self, name, program, work):
        self.name = name
        self.mpirun = shutil.which(f"mpirun.{name}")
        self.flags = ["--oversubscribe"] if name == "openmpi" else []
        self.module = pathlib.Path(work) / f"libfovea_{name}.so"
        compiler = shutil.which(f"mpicxx.{name}")
        self.found = bool(self.mpirun and compiler)
        if self.found:
            # As docs/scale.md says: for another MPI, one file once more.
            subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{SOURCE}/src",
                            f"{SOURCE}/src/mpi/module.cc", "-o", self.module], check=True)
        self.environment = {**os.environ, "FOVEA_MPI_MODULE": str(self.module), "FOVEA_THREADS": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

    def command(self, ranks, arguments):
        return [self.mpirun, *self.flags, "-n", str(ranks), *arguments]


def fail(text):
    sys.exit(f"broken: {text}")


def expect(holds, text):
    if not holds:
        fail(text)


def train(command, environment, expected=0):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if (done.returncode == 0) != (expected == 0):
        fail(f"{' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def state_of(run):
    """The state without its clock."""
    data = (run / "state.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header["__metadata__"].pop("seconds")
    return header, data[8 + length:]


def expect_same(run, whole, what):
    for name in ("log.jsonl", "model.safetensors"):
        expect((run / name).read_bytes() == (whole / name).read_bytes(), f"{name} differs: {what}")
    expect(state_of(run) == state_of(whole), f"state.safetensors differs: {what}")


def small(program, task, steps, changed=()):
    known = subprocess.run([program, "train", task, "--help"], capture_output=True, text=True).stdout
    options = [f"--{name}={value}" for name, value in SIZES.items() if re.search(rf"--{name} [NX] ", known)
               and not any(c.startswith(f"--{name}=") for c in changed)]
    return [program, "train", task, *options, "--steps", str(steps), "--batches", "8", "--validate-every", "2",
            *changed]


def tasks_of(program):
    listed = subprocess.run([program, "train"], capture_output=True, text=True).stdout
    return re.findall(r"^  (\w+)  ", listed.split("Subcommands:")[1], re.M)


def check_equal(launchers, program, work, tasks, ranks):
    alone = {**os.environ, "FOVEA_THREADS": "2"}
    compared = 0
    for task in tasks:
        for i, changed in enumerate([[], *CHANGED.get(task, [])]):
            command = small(program, task, 3, changed)
            whole = work / f"{task}{i}"
            train([*command, "--out", whole], alone)
            for launcher in launchers:
                for n in ranks:
                    run = work / f"{task}{i}-{launcher.name}-{n}"
                    train(launcher.command(n, [*command, "--out", run]), launcher.environment)
                    expect_same(run, whole, f"{task} {changed} {launcher.name} -n {n}")
                    shutil.rmtree(run)
                    compared += 1
    print(f"{compared} runs of {', '.join(tasks)} equal to one process, to the byte", flush=True)


def check_predict(launchers, program, work):
    """Three parts of a file, of which two ranks take two and one."""
    run, lines = work / "documents", work / "lines.txt"
    train([*small(program, "documents", 3), "--out", run], {**os.environ, "FOVEA_THREADS": "2"})
    lines.write_text("".join(f"a {i} good day, and {'bad' * (i % 3)} weather\n" for i in range(700)))
    command = [program, "predict", run, "--file", lines, "--json"]
    whole = subprocess.run(command, capture_output=True, check=True).stdout
    expect(whole.count(b"\n") == 700, "a line for each")
    for launcher in launchers:
        for n in (2, 4):
            done = subprocess.run(launcher.command(n, command), env=launcher.environment, capture_output=True, check=True)
            expect(done.stdout == whole, f"predict differs: {launcher.name} -n {n}")
        said = train(launcher.command(2, [*command[:3], "typed"]), launcher.environment, 2)
        expect("several processes answer the lines of --file FILE" in said, said)
        said = train(launcher.command(2, [*command[:3], "--file", work / "none.txt"]), launcher.environment, 2)
        expect(said.count("none.txt") == 1, f"once, not\n{said}")
    print("predictions equal to one process's, to the byte", flush=True)


def output_of(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout


def reproduced(folder):
    """What a reproduction found, without its clock, and all that its runs learned."""
    results = json.loads((folder / "results.json").read_text())
    for trial in results["trials"]:
        trial.pop("seconds")
    learned = {str(f.relative_to(folder)): f.read_bytes() for pattern in ("*/log.jsonl", "*/model.safetensors")
               for f in sorted(folder.glob(pattern))}
    return results, learned


MEASURES = ("dong2021", ["--seeds", "2"])
TRAINS = ("jain2019", ["--seeds", "1", "--effort", "0.02"])


def check_verbs(launchers, program, work, tasks, ranks, papers):
    """eval of every task, faithful where the task has it, and reproductions that train and that measure."""
    alone = {**os.environ, "FOVEA_THREADS": "2"}
    compared = 0
    for task in tasks:
        run = work / f"verbs-{task}"
        train([*small(program, task, 3), "--out", run], alone)
        commands = [[program, "eval", run, "--set", s, "--json"] for s in ("train", "test")]
        if task in ("translate", "documents", "caption"):
            commands.append([program, "faithful", run, "--inputs", "5", "--steps", "3", "--json"])
        for command in commands:
            whole = output_of(command, alone)
            expect(len(whole) > 20, f"{command} says something")
            for launcher in launchers:
                for n in ranks:
                    found = output_of(launcher.command(n, command), launcher.environment)
                    expect(found == whole, f"{command} differs: {launcher.name} -n {n}:\n{found}\n{whole}")
                    compared += 1
        shutil.rmtree(run)
    for name, options in papers:
        command = [program, "reproduce", name, *options, "--out"]
        whole = work / f"verbs-{name}"
        output_of([*command, whole], alone)
        for launcher in launchers:
            for n in ranks:
                found = work / f"verbs-{name}-{launcher.name}-{n}"
                said = output_of(launcher.command(n, [*command, found]), launcher.environment)
                expect(said.count(b"Report ") == 1, f"once, not\n{said.decode()}")
                expect(reproduced(found) == reproduced(whole), f"reproduce {name} differs: {launcher.name} -n {n}")
                compared += 1
                shutil.rmtree(found)
    print(f"{compared} evaluations, faithfulness measures and reproductions equal to one process's, to the byte",
          flush=True)


def check_attention(launchers, program):
    """Forward and backward: bits do not depend on the number of ranks, memory of a rank is its share."""
    command = [str(pathlib.Path(program).parent / "tests" / "attend_ranks"), "4096", "4", "32"]
    one = json.loads(output_of(command, {**os.environ, "FOVEA_THREADS": "1"}))
    for launcher in launchers:
        for n in (1, 2, 3, 4):
            found = json.loads(output_of(launcher.command(n, command), launcher.environment))
            expect(found["ranks"] == n, f"{n} ranks, found {found}")
            expect(found["hash"] == one["hash"], f"{launcher.name} -n {n} gave other bits: {found}, one process {one}")
            expect(found["peak"] < 1.25 * one["peak"] / n, f"{launcher.name} -n {n} took too much: {found}, {one}")
    print("attention over 1 to 4 ranks equal to one process, to the bit", flush=True)


# ---- Failures ---------------------------------------------------------------------------------------------------


def ranks_of(process):
    """Processes below it that train, by rank."""
    below, found = {process.pid}, {}
    for _ in range(4):
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int(path.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent not in below:
                    continue
                below.add(int(path.name))
                variables = path.joinpath("environ").read_bytes().split(b"\0")
                for v in variables:
                    name, _, value = v.partition(b"=")
                    if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK") and b"fovea" in path.joinpath("comm").read_bytes():
                        found[int(value)] = int(path.name)
            except (OSError, ValueError):
                continue
    return found


def started(launcher, ranks, command, **more):
    environment = {**launcher.environment, **more}
    return subprocess.Popen(launcher.command(ranks, command), env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def step_of(run):
    try:
        return int(state_of(run)[0]["__metadata__"]["step"])
    except (OSError, ValueError, KeyError):
        return 0


def wait_for_step(process, run, step):
    end = time.monotonic() + 60
    while step_of(run) < step and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def check_killed(launchers, program, work, times):
    draw = random.Random(times)
    steps = 60
    command = [*small(program, "image", steps), "--save-every", "1", "--average", "0.9", "--keep", "last"]
    whole = work / "whole"
    train([*command, "--out", whole], {**os.environ, "FOVEA_THREADS": "2"})
    slowest, kills = 0.0, 0
    for i in range(times):
        run = work / f"killed{i}"
        arguments = [*command, "--out", run]
        while True:
            launcher = launchers[i % len(launchers)]
            process = started(launcher, draw.choice([1, 2, 3, 4]), arguments)
            wait_for_step(process, run, step_of(run) + draw.randrange(1, 12))
            time.sleep(draw.random() * 0.03)
            ranks = ranks_of(process)
            if process.poll() is None and ranks:
                which = draw.choice(sorted(ranks)) if i % 3 else None
                began = time.monotonic()
                for rank, pid in ranks.items():
                    if which in (None, rank):
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                process.communicate(timeout=60)
                slowest = max(slowest, time.monotonic() - began)
                kills += 1
            else:
                process.communicate(timeout=60)
            if process.returncode == 0:
                break
            if "--resume" not in arguments and (run / "state.safetensors").exists():
                arguments.append("--resume")
            if step_of(run) >= steps // 2:  # and now to the end, with yet another number
                train(launcher.command(draw.choice([1, 2, 3, 4]), arguments), launcher.environment)
                break
        expect_same(run, whole, f"killed run {i}")
        shutil.rmtree(run)
    expect(slowest < 5, f"a killed rank ended all after {slowest:.1f} s")
    print(f"{times} runs, killed {kills} times and resumed, equal to the run that never stopped; all ended within "
          f"{slowest:.2f} s", flush=True)


def check_stopped(launcher, command, run):
    process = started(launcher, 3, [*command, "--out", run], FOVEA_DEADLINE="1.5")
    wait_for_step(process, run, 2)
    ranks = ranks_of(process)
    expect(len(ranks) == 3, f"{launcher.name}: three ranks, found {ranks}")
    os.kill(ranks[1], signal.SIGSTOP)
    began = time.monotonic()
    said = process.communicate(timeout=60)[0]
    took = time.monotonic() - began
    expect("rank 1 has not answered for 1.5 s" in said, f"a stopped rank is named:\n{said}")
    expect(process.returncode != 0 and took < 8, f"a stopped rank ends all, took {took:.1f} s")
    expect(step_of(run) >= 2, "the checkpoint is whole")
    print(f"{launcher.name}: a stopped rank was named, and all ended, after {took:.1f} s", flush=True)


def check_interrupted(launcher, command, run, whole):
    process = started(launcher, 3, [*command, "--out", run])
    wait_for_step(process, run, 3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    expect(process.returncode != 0 and step_of(run) >= 3, "Ctrl-C leaves a whole checkpoint")
    train(launcher.command(2, [*command, "--out", run, "--resume"]), launcher.environment)
    expect_same(run, whole, f"{launcher.name}: interrupted and resumed")


OTHER = "9.9.9"


def version_of(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def other_version(program, work):
    """The same program, but for the version that is compiled into it."""
    version = version_of(program)
    expect(len(version) == len(OTHER), f"a version as long as {OTHER}, found {version}")
    other = work / "fovea-other"
    other.write_bytes(pathlib.Path(program).read_bytes().replace(version.encode() + b"\0", OTHER.encode() + b"\0"))
    other.chmod(0o755)
    expect(version_of(other) == OTHER, f"{other} says {version_of(other)}")
    return str(other)


def check_told(launcher, program, work):
    """What ranks differ in, before the first step and with nothing left behind."""
    command = [*small(program, "image", 3)]
    run = work / "told"

    def told(first, second, text, directories=(".", ".")):
        # By a shell: a launcher of two programs, `:` between them, crashes in Open MPI 5.0.7.
        does = [f"cd {shlex.quote(str(directory))} && exec {shlex.join(map(str, [*arguments, '--out', run]))}"
                for arguments, directory in zip((first, second), directories)]
        both = f'if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ]; then {does[0]}; else {does[1]}; fi'
        said = train(launcher.command(2, ["sh", "-c", both]), launcher.environment, expected=2)
        expect(text in said, f"{launcher.name}: '{text}' in\n{said}")
        expect(said.count(text) == 1, f"{launcher.name}: once, not\n{said}")
        expect(not run.exists(), f"{launcher.name}: nothing is left after '{text}'")

    told(command, [*command, "--seed", "2"], "the processes differ in --seed: rank 1 has 2, rank 0 has 1")
    told(command, [other_version(program, work), *command[1:]],
         f"the processes differ in version: rank 1 has {OTHER}, rank 0 has {version_of(program)}")
    told(["env", "FOVEA_ISA=sse4", *command], command, "the processes differ in instruction set: rank 1 has ")
    for i, word in enumerate(["one", "two"]):
        (work / str(i)).mkdir(exist_ok=True)
        lines = [f"{word} {n}\t{n} {word}" for n in range(60)]
        (work / str(i) / "pairs.tsv").write_text("\n".join(lines) + "\n")
    pairs = [*small(program, "translate", 3), "pairs.tsv"]
    told(pairs, pairs, "the processes differ in their data (fingerprint): rank 1 has ",
         (work / "0", work / "1"))
    over = small(program, "lm", 3, ["--context-ranks", "--context=32"])
    told(over, over, "--context-ranks: windows of 64 tokens or more, found 32")
    few = [*command, "--batches", "1"]
    told(few, few, "--batches takes 2 or more")


def check_modules(launchers, program, work):
    command = [*small(program, "image", 3), "--out", work / "never"]
    for launcher in launchers:
        said = train(launcher.command(2, command), {**launcher.environment, "FOVEA_MPI_MODULE": "/nowhere.so"}, 2)
        expect("the MPI module cannot be opened" in said, said)
        # MPICH lets the others go on when one ends that never joined, so that each says it.
        expect(launcher.name == "mpich" or said.count("the MPI module cannot be opened") == 1, f"once, not\n{said}")
        said = train(launcher.command(2, [program, "info"]), launcher.environment, 2)
        expect(said.count("train, eval, predict, faithful, reproduce share their work") == 1, said)
        said = train(launcher.command(3, [program, "train", "image", "--nonsense"]), launcher.environment, 2)
        expect(said.count("nonsense") == 1, f"once, not\n{said}")
    if len(launchers) == 2:
        said = train(launchers[0].command(2, command),
                     {**launchers[0].environment, "FOVEA_MPI_MODULE": str(launchers[1].module)}, 2)
        expect("it is of another MPI than the launcher" in said, said)
    expect(not (work / "never").exists(), "nothing is left")


def check_failing(launchers, program, work):
    steps = 60
    command = [*small(program, "image", steps), "--save-every", "1"]
    whole = work / "whole"
    train([*command, "--out", whole], {**os.environ, "FOVEA_THREADS": "2"})
    for launcher in launchers:
        check_told(launcher, program, work)
        check_stopped(launcher, [*small(program, "image", 100000), "--save-every", "1"], work / f"stopped-{launcher.name}")
        check_interrupted(launcher, command, work / f"interrupted-{launcher.name}", whole)
    check_modules(launchers, program, work)
    print("what goes wrong is said, and ends everything", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("parts", nargs="+", choices=["equal", "verbs", "quick", "killed", "failing", "attention"])
    parser.add_argument("--launcher", action="append", choices=["openmpi", "mpich"])
    parser.add_argument("--times", type=int, default=2)
    asked = parser.parse_args()
    work = pathlib.Path(asked.work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    program = str(pathlib.Path(asked.program).resolve())
    launchers = [Launcher(name, program, work) for name in asked.launcher or ["openmpi", "mpich"]]
    launchers = [l for l in launchers if l.found]
    if not launchers:
        print("skipped: neither mpirun.openmpi nor mpirun.mpich, with its mpicxx, is here")
        sys.exit(77)
    for part in asked.parts:
        folder = work / part
        folder.mkdir()
        if part == "equal":
            check_equal(launchers, program, folder, tasks_of(program), [2, 3, 4, 8])
            check_predict(launchers, program, folder)
        elif part == "verbs":
            check_verbs(launchers, program, folder, tasks_of(program), [1, 2, 3, 4], [MEASURES, TRAINS])
        elif part == "quick":
            check_equal(launchers[:1], program, folder, ["image"], [3])
            check_predict(launchers[:1], program, folder)
            check_verbs(launchers[:1], program, folder, ["documents"], [3], [])
        elif part == "killed":
            check_killed(launchers, program, folder, asked.times)
        elif part == "attention":
            check_attention(launchers, program)
        else:
            check_failing(launchers, program, folder)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
