"""The loop every peer runs: a JSON request a line on stdin, a JSON answer a line on stdout, as
Fovea's own worker (bench/attention.cc) does.

  {"path": "eager", "case": {…}, "pass": "forward", "seconds": 0.2, "reps": 3,
   "inputs": "in.safetensors", "outputs": "out.safetensors"}
"""

import ctypes
import gc
import json
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import tensors  # noqa: E402


def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def resident_growth(step):
    """Peak resident memory of one call, above what was there before it."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")
    before = status_bytes("VmRSS")
    result = step()
    return result, max(0, status_bytes("VmHWM") - before)


def time_calls(step, reps, seconds):
    ns, total = [], 0.0
    while len(ns) < reps or total < seconds:
        start = time.perf_counter_ns()
        step()
        ns.append(time.perf_counter_ns() - start)
        total += ns[-1] / 1e9
    return ns


class Peer:
    """prepare(path, case, both, inputs), and a type other than float32, returns (step,
    outputs_of): step() does the timed work and returns its result, outputs_of(result) gives numpy
    arrays by name. forget() frees memory before the next case."""

    def __init__(self, prepare, forget=lambda: None):
        self.prepare, self.forget = prepare, forget
        self.at_hand, self.steps = None, {}

    def answer(self, request):
        at_hand = (request["case"]["name"], request["pass"], request["inputs"])
        if at_hand != self.at_hand:
            self.steps.clear()
            self.forget()
            gc.collect()
            self.at_hand = at_hand
        path, answer = request["path"], {}
        if path not in self.steps:
            inputs = {k: v.copy() for k, v in tensors.load(request["inputs"]).items()}
            kind = [request["type"]] if request.get("type", "f32") != "f32" else []
            step, outputs_of = self.prepare(path, request["case"], request["pass"] == "both",
                                            inputs, *kind)
            step()
            result, growth = resident_growth(step)
            outputs = outputs_of(result)
            sizes = sum(array.nbytes for array in outputs.values())
            answer["resident_bytes"] = max(0, growth - sizes)
            if request.get("outputs"):
                tensors.save(request["outputs"], outputs)
            self.steps[path] = step
        ns = time_calls(self.steps[path], request.get("reps", 3), request.get("seconds", 0.0))
        return answer | {"ns": ns, "median_ns": sorted(ns)[len(ns) // 2] if ns else 0}

    def serve(self):
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a library prints goes to the log
        for line in sys.stdin:
            try:
                answer = self.answer(json.loads(line))
            except MemoryError:
                answer = {"error": "out of memory"}
            except Exception as error:  # a peer that cannot is a gap in the table, not the end
                traceback.print_exc()
                first = (str(error).strip().splitlines() or [""])[0]
                answer = {"error": f"{type(error).__name__}: {first}"[:200]}
            out.write(json.dumps(answer) + "\n")
            out.flush()


class ModelPeer(Peer):
    """A model that is loaded once and then asked: {"load": options}, {"train": options}, and what
    else a subclass has by that name. It gives step(number), which trains on one batch and returns
    the loss."""

    def __init__(self):
        super().__init__(None)

    def answer(self, request):
        (what, options), = request.items()
        return getattr(self, what)(options)

    def train(self, options):
        losses, ns = [], []
        for number in range(options["from"], options["from"] + options["steps"]):
            start = time.perf_counter_ns()
            losses.append(self.step(number))
            ns.append(time.perf_counter_ns() - start)
        return {"losses": losses, "ns": ns}

    @classmethod
    def main(cls, version):
        if sys.argv[1:] == ["--version"]:
            print(version)
        else:
            cls().serve()
