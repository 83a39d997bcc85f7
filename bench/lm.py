"""A decoder-only Transformer beside PyTorch's and CTranslate2's: same weights, same batches, same
threads, one run, taking turns.

    ./dev bench lm [--parts train,generate,linear] [--peers torch,compiled,ctranslate2] [--quick]
    ./dev bench lm --device cuda --type bf16 --parts train [--peers torch,compiled,float32]

Training: AdamW with clipped gradients, beside PyTorch eager and torch.compile; losses are compared.
On a GPU GPT-2 small trains, too, and with --type bf16 all sides in that (PyTorch by autocast) but
float32, which is Fovea without it.
Generation: one sequence, greedily, with a cache, beside PyTorch and CTranslate2; tokens are compared.
Linear attention: what twice the length costs."""

import os
import sys
import tempfile
from dataclasses import asdict, dataclass, replace

from harness import program, workers
from harness.program import median, note
from harness.workers import in_turn

COMPARED_STEPS, LOSS_TOLERANCE = 20, 1e-3  # relative
BF16_STEPS, BF16_TOLERANCE = 200, 1e-2
SAME_TOKENS = 0.9     # a share: a near tie may fall either way and changes all that follows
DISTINCT_TOKENS = 0.5  # a share: fewer, and that they are the same says little
LINEAR_TOLERANCE = 0.15

PARTS = ("train", "generate", "linear")
# A side: its worker's script, what it takes part in, what it is asked besides, how to have it.
PEERS = {"torch": ("lm_torch", ("train", "generate"), {}, "torch numpy"),
         "compiled": ("lm_torch", ("train",), {"compile": True}, "torch numpy"),
         "float32": (None, ("train",), {"type": "f32"}, ""),
         "ctranslate2": ("lm_ctranslate2", ("generate",), {}, "ctranslate2 numpy")}


@dataclass(frozen=True)
class Model:
    blocks: int
    width: int
    heads: int
    context: int
    vocabulary: int

    def parameters(self):
        """Of what a token reads: all but the positions; the output layer is the embedding."""
        W = self.width
        return self.blocks * (12 * W * W + 13 * W) + 2 * W + self.vocabulary * W


@dataclass(frozen=True)
class Training:
    name: str
    model: Model
    batch: int
    steps: int
    turn: int  # steps before the next side has its turn


@dataclass(frozen=True)
class Generating:
    name: str
    model: Model
    count: int  # tokens
    turns: int


TRAININGS = (Training("4 × 128, letters", Model(4, 128, 4, 64, 65), 12, 200, 40),
             Training("6 × 384, letters", Model(6, 384, 6, 256, 65), 16, 20, 5),
             Training("6 × 384, subwords", Model(6, 384, 6, 256, 8192), 16, 20, 5))
# Where there is a GPU.
LARGE_TRAININGS = (Training("12 × 768, GPT-2 small", Model(12, 768, 12, 1024, 50257), 64, 20, 5),)
GENERATIONS = (Generating("6 × 384", Model(6, 384, 6, 256, 8192), 200, 6),
               Generating("12 × 768, GPT-2 small", Model(12, 768, 12, 1024, 50257), 48, 4))
LINEAR = {"width": 256, "heads": 4}


def arguments():
    parser = program.parser_of("lm", __doc__, quick="fewer turns, shorter sequences",
                               only="trainings and generations with this in their name")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--peers", help="which to compare with, or none; of " + ", ".join(PEERS))
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for all sides")
    parser.add_argument("--type", default="f32", choices=("f32", "bf16"),
                        help="what blocks compute in, where a GPU trains")
    parser.add_argument("--batch", type=program.at_least(1), help="sequences of a training's step")
    parser.add_argument("--steps", type=program.at_least(1), help="of a training")
    options = program.parse(parser)
    if options.type != "f32" and options.device != "cuda":
        parser.error(f"--type {options.type} is for trainings on a GPU: --device cuda")
    options.parts = options.parts.split(",")
    if options.peers is None:
        options.peers = ",".join(p for p in PEERS if p != "float32")
    options.peers = [p for p in options.peers.split(",") if p and p != "none"]
    for kind, given, known in (("part", options.parts, PARTS), ("peer", options.peers, PEERS)):
        for name in given:
            if name not in known:
                parser.error(f"no {kind} '{name}'; there are {', '.join(known)}")
    return options


# How large tokens and positions are: as people start with them, and so that a model that has learned
# nothing does not write the same word over and over.
START, VARIED = (0.02, 0.02), (0.1, 1.0)


def make_weights(model, sizes):
    """Layers that keep the size of what they get; token 0 is never the likeliest."""
    import numpy as np
    random = np.random.default_rng(1)
    W = model.width

    def normal(*shape, scale):
        return random.standard_normal(shape, np.float32) * np.float32(scale)

    weights = {"target.weight": normal(model.vocabulary, W, scale=sizes[0]),
               "decoder.positions": normal(model.context, W, scale=sizes[1])}
    weights["target.weight"][0] = 0

    def norm(name):
        weights[name + ".weight"] = 1 + normal(W, scale=0.02)
        weights[name + ".bias"] = normal(W, scale=0.02)

    def linear(name, rows, columns, scale):
        weights[name + ".weight"] = normal(rows, columns, scale=scale * columns ** -0.5)
        weights[name + ".bias"] = normal(rows, scale=0.02)

    for b in range(model.blocks):
        name, last = f"decoder.{b}", (2 * model.blocks) ** -0.5
        norm(name + ".self_norm")
        linear(name + ".self.in", 3 * W, W, 1)
        linear(name + ".self.out", W, W, last)
        norm(name + ".mlp_norm")
        linear(name + ".mlp.up", 4 * W, W, 1)
        linear(name + ".mlp.down", W, 4 * W, last)
    norm("decoder.norm")
    return weights


def make_ids(training):
    """By Zipf's law; no token 0, which is padding."""
    import numpy as np
    n = training.model
    p = 1 / np.arange(1, n.vocabulary)
    return np.random.default_rng(2).choice(
        np.arange(1, n.vocabulary), (training.steps, training.batch, n.context + 1),
        p=p / p.sum()).astype(np.int64)


class Side(workers.Side):
    def __init__(self, label, command, threads, extra):
        super().__init__(label, command, threads)
        self.extra = extra

    def load(self, model, files):
        note(f"{self.label}: loads")
        self.losses, self.step_ns, self.tokens, self.token_ns = [], [], [], []
        self.ask({"load": asdict(model) | files | self.extra})

    def train(self, first, steps):
        note(f"{self.label}: trains from {first}")
        answer = self.ask({"train": {"from": first, "steps": steps}})
        self.losses += answer["losses"]
        self.step_ns += answer["ns"]

    def generate(self, prompt, count):
        note(f"{self.label}: writes {count} tokens")
        answer = self.ask({"generate": {"prompt": prompt, "count": count}})
        self.tokens.append(answer["tokens"])
        self.token_ns.append(answer["ns"] / count)


def sides_of(options, part):
    """Fovea, and the peers that are installed and take part; a line for each that is not."""
    ours = [os.path.join(options.build, "bench", "lm")]
    place = {"device": options.device, "type": options.type}
    sides = [Side("fovea", ours, options.threads, place)]
    for name in options.peers:
        script, parts, extra, packages = PEERS[name]
        if part not in parts:
            continue
        if script is None:
            sides.append(Side(name, ours, options.threads, place | extra))
            continue
        sides += [Side(f"{name} {version}", command, options.threads, extra | place)
                  for version, command in program.peer(script, name, packages)]
    return sides


def speeds(sides, ns_of):
    """Milliseconds of each, and how many times as fast Fovea is."""
    ms = {side.label: median(ns_of(side)) / 1e6 for side in sides}
    return {label: {"ms": each, "ratio": each / ms["fovea"]} for label, each in ms.items()}


# ---- Training ------------------------------------------------------------------------------------

def loss_faults(name, us, peer):
    bf16 = us.extra["type"] == "bf16"
    steps, bound = (BF16_STEPS, BF16_TOLERANCE) if bf16 else (COMPARED_STEPS, LOSS_TOLERANCE)
    worst = max(abs(a - b) / abs(b) for a, b in zip(us.losses[:steps], peer.losses[:steps]))
    if worst <= bound:
        return worst, []
    return worst, [f"{name}: a loss differs from that of {peer.label} by {worst:.1e} of it"]


def train(training, sides, quick):
    from harness import tensors
    steps, turn = (min(6, training.steps), 3) if quick else (training.steps, training.turn)
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        files = {name: os.path.join(folder, name) for name in ("weights", "batches")}
        tensors.save(files["weights"], make_weights(training.model, START))
        tensors.save(files["batches"], {"ids": make_ids(training)})
        for side in sides:
            side.load(training.model, files)
        for number, first in enumerate(range(0, steps, turn)):
            for side in in_turn(sides, number):
                side.train(first, min(turn, steps - first))
    note("")
    result = {"name": training.name, "model": asdict(training.model), "batch": training.batch,
              "tokens": training.batch * training.model.context,
              "sides": speeds(sides, lambda side: side.step_ns), "faults": [],
              "losses": {side.label: side.losses for side in sides}}
    for peer in sides[1:]:
        off, faults = loss_faults(training.name, sides[0], peer)
        result["sides"][peer.label]["losses_differ"] = off
        result["faults"] += faults
    return result


def show_training(result):
    print(f"training, {result['name']}, {result['batch']} × {result['model']['context']} tokens")
    for label, side in result["sides"].items():
        off = side.get("losses_differ")
        print(f"  {label:24}{side['ms']:10.1f} ms a step{1e3 * result['tokens'] / side['ms']:10.0f} "
              f"tokens/s" + (f"{side['ratio']:9.2f}×   losses within {off:.0e}" if off else ""))


# ---- Generation ----------------------------------------------------------------------------------

def generate(generating, sides, quick):
    from harness import tensors
    model = generating.model
    count = generating.count // 4 if quick else generating.count
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        weights = os.path.join(folder, "weights")
        tensors.save(weights, make_weights(model, VARIED))
        for side in sides:
            side.load(model, {"weights": weights})
            side.ask({"generate": {"prompt": [1, 2], "count": 2}})  # what is made once
    for number in range(2 if quick else generating.turns):
        prompt = [(7 * number + 13 * i) % (model.vocabulary - 1) + 1 for i in range(8)]
        for side in in_turn(sides, number):
            side.generate(prompt, count)
    size = 4 * model.parameters()
    note("fovea: how fast memory is")
    machine = sides[0].ask({"machine": {"bytes": size}})["bytes_per_second"]
    note("")
    texts = sides[0].tokens
    result = {"name": generating.name, "model": asdict(model), "bytes_a_token": size,
              "machine": machine, "distinct": sum(len(set(t)) / count for t in texts) / len(texts),
              "sides": speeds(sides, lambda side: side.token_ns), "faults": []}
    for side in sides:
        entry = result["sides"][side.label]
        entry["bytes_per_second"] = size / (entry["ms"] / 1e3)
    for peer in sides[1:]:
        same = sum(a == b for ours, theirs in zip(texts, peer.tokens)
                   for a, b in zip(ours, theirs)) / (count * len(texts))
        result["sides"][peer.label]["same"] = same
        if same < SAME_TOKENS:
            result["faults"].append(
                f"{generating.name}: only {same:.0%} of the tokens are those of {peer.label}")
    if result["distinct"] < DISTINCT_TOKENS:
        result["faults"].append(
            f"{generating.name}: only {result['distinct']:.0%} of a text's tokens are distinct")
    return result


def show_generation(result):
    print(f"generation, {result['name']}: {result['bytes_a_token'] / 1e6:.0f} MB of weights, read "
          f"at {result['machine'] / 1e9:.1f} GB/s at best; "
          f"{result['distinct']:.0%} of a text's tokens distinct")
    for label, side in result["sides"].items():
        same = side.get("same")
        print(f"  {label:24}{side['ms']:10.3f} ms a token{side['bytes_per_second'] / 1e9:8.1f} GB/s"
              f"{side['bytes_per_second'] / result['machine']:6.0%} of that"
              + (f"{side['ratio']:9.2f}×   {same:.0%} of the tokens the same" if same else ""))


# ---- Linear attention ----------------------------------------------------------------------------

def time_linear(side, quick):
    lengths = [1024 << i for i in range(4 if quick else 7)]
    result = {"layer": LINEAR, "lengths": lengths, "ms": {}, "growth": {}, "faults": []}
    for which, backward in (("forward", False), ("forward+backward", True)):
        best = [float("inf")] * len(lengths)
        for _ in range(3):
            for i, length in enumerate(lengths):
                note(f"linear attention, {which}: {length}")
                answer = side.ask({"linear": LINEAR | {"length": length, "backward": backward,
                                                       "seconds": 0.1 if quick else 0.4}})
                best[i] = min(best[i], median(answer["ns"]) / 1e6)
        growth = [b / a for a, b in zip(best, best[1:])]
        result["ms"][which], result["growth"][which] = best, growth
        for length, g in zip(lengths[1:], growth):
            if abs(g / 2 - 1) > LINEAR_TOLERANCE:
                result["faults"].append(
                    f"linear attention, {which}: {length} keys take {g:.2f} times as long as half")
    note("")
    return result


def show_linear(result):
    print(f"linear attention, causal, a layer of width {LINEAR['width']} and {LINEAR['heads']} heads")
    print(f"  {'length':24}" + "".join(f"{length:>10}" for length in result["lengths"]))
    for which, ms in result["ms"].items():
        print(f"  {which + ', ms':24}" + "".join(f"{x:10.2f}" for x in ms))
        print(f"  {'times that of half':24}{'':10}"
              + "".join(f"{g:10.2f}" for g in result["growth"][which]))


def run_part(options, part):
    sides = sides_of(options, part)
    results = []
    try:
        if part == "linear":
            results.append(time_linear(sides[0], options.quick))
            show_linear(results[-1])
        trainings = TRAININGS + (LARGE_TRAININGS if options.device == "cuda" else ())
        given = {name: value for name, value in (("batch", options.batch), ("steps", options.steps))
                 if value}
        trainings = [replace(case, **given) for case in trainings]
        cases, run, show = {"train": (trainings, train, show_training),
                            "generate": (GENERATIONS, generate, show_generation),
                            "linear": ((), None, None)}[part]
        for case in cases:
            if options.only in case.name:
                results.append(run(case, sides, options.quick))
                show(results[-1])
                sys.stdout.flush()
    finally:
        workers.stop(sides)
    return results


def main():
    options = arguments()
    report = program.begin(options)
    try:
        results = {part: run_part(options, part) for part in options.parts}
    except workers.WorkerError as error:
        sys.exit(f"bench: {error}")
    program.expect_any(options, any(results.values()))
    faults = [line for part in results.values() for result in part for line in result["faults"]]
    return program.finish(options, report | results, faults)


if __name__ == "__main__":
    sys.exit(main())
