"""Workers: processes that answer one JSON request a line, Fovea's and each peer's alike."""

import json
import os
import select
import subprocess
import tempfile
import time


class WorkerError(Exception):
    """A worker said no, died, or took too long."""


# How each library is held to an instruction set.
ISAS = {"avx2": {"FOVEA_ISA": "avx2",
                 "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own kernels, and those it compiles
                 "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                 "ONEDNN_MAX_CPU_ISA": "AVX2",
                 "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}}


def environment(threads, isa=None):
    """The same number of threads, and the same instructions where they are named, for everyone;
    each library keeps its own way of waiting."""
    env = os.environ | ISAS.get(isa, {})
    for name in ("FOVEA_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = str(threads)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


def pin(threads):
    """Libraries that count cores themselves (jax) see no more than `threads` of them."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:threads] if len(cores) >= threads else cores)


class Worker:
    def __init__(self, command, threads, isa=None):
        self.command, self.threads, self.isa = command, threads, isa
        self.process = None

    def start(self):
        self.log = tempfile.TemporaryFile()
        self.buffer = b""
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            env=environment(self.threads, self.isa), preexec_fn=lambda: pin(self.threads))

    def stop(self):
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()
        self.process = None

    def ask(self, request, timeout=600):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = json.loads(self._line(timeout))
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _line(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [],
                                        max(0, deadline - time.monotonic()))
            if not ready:
                self.stop()
                raise WorkerError(f"no answer within {timeout:.0f} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                status = self.process.wait()
                last = self._last_words()
                self.stop()
                raise WorkerError(f"ended with status {status}: {last}")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def _last_words(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def settle(self, quiet=0.004, limit=1.0):
        """Waits until none of its threads runs: idle OpenMP threads spin for a while after the
        work is done, and would take a core from whoever is timed next. Returns the seconds it
        took."""
        start = time.monotonic()
        if self.process is None:
            return 0.0
        used = cpu_nanoseconds(self.process.pid)
        while time.monotonic() - start < limit:
            time.sleep(quiet)
            before, used = used, cpu_nanoseconds(self.process.pid)
            if used - before < 0.05 * quiet * 1e9:
                break
        return time.monotonic() - start


class Side:
    """Who takes turns with others: a worker that is idle when it has answered."""

    def __init__(self, label, command, threads):
        self.label, self.worker = label, Worker(command, threads)

    def ask(self, request):
        answer = self.worker.ask(request)
        self.worker.settle()
        return answer


def in_turn(sides, number):
    """Nobody is always the first."""
    return sides if number % 2 == 0 else sides[::-1]


def stop(sides):
    for side in sides:
        side.worker.stop()


def cpu_nanoseconds(pid):
    """Processor time of all threads of a process so far."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as stat:
                total += int(stat.read().split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return total
