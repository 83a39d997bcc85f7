"""The recurrent translator with attention beside PyTorch's: same weights, same batches, same
threads, one run, taking turns.

    ./dev bench translate [--peers torch] [--threads 2] [--device cuda [--graph]] [--quick]

Training: batches of 64 pairs of 30 words, vocabularies of 10,000, width 512 throughout, Adam with
clipped gradients. Decoding: greedy, one sentence at a time, 30 words."""

import os
import sys
import tempfile

from harness import program, workers
from harness.program import median, note

LOSS_TOLERANCE = 1e-3
SAME_SENTENCES = 0.9  # a share: a near tie may fall either way and changes all that follows
DISTINCT_SENTENCES = 0.5  # a share: fewer, and that they are the same says little
END = 3


def arguments():
    parser = program.parser_of("translate", __doc__, quick="a smaller model and fewer turns")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for both sides")
    parser.add_argument("--unfused", action="store_true", help="PyTorch's Adam as it is by default")
    parser.add_argument("--graph", action="store_true", help="PyTorch's steps as a CUDA graph")
    parser.add_argument("--without-fovea", action="store_true", help="the peer alone")
    options = program.parse_with_torch(parser)
    if options.graph and options.device != "cuda":
        parser.error("--graph is for a GPU: --device cuda")
    return options


class Shape:
    def __init__(self, quick):
        self.B, self.T, self.V, self.H = (8, 10, 500, 64) if quick else (64, 30, 10000, 512)
        self.steps, self.turn = (8, 2) if quick else (20, 5)
        self.sentences = 8 if quick else 40


def make_weights(n):
    """Uniform by fan-in, as layers commonly start; embeddings wide enough that what is decoded
    depends on the source; never the end token, so that decoding takes the same number of words
    everywhere."""
    import numpy as np
    random = np.random.default_rng(1)

    def matrix(rows, columns):
        limit = columns ** -0.5
        return random.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    def vector(size):
        return random.uniform(-0.05, 0.05, size).astype(np.float32)

    H, weights = n.H, {}
    for side in ("source", "target"):
        weights[f"{side}.weight"] = random.standard_normal((n.V, H), np.float32)
    for name, width, suffix in (("encoder", H, "_l0"), ("encoder", H, "_l0_reverse"),
                                ("decoder.0", 3 * H, "")):
        for part, columns in (("ih", width), ("hh", H)):
            weights[f"{name}.weight_{part}{suffix}"] = matrix(3 * H, columns)
            weights[f"{name}.bias_{part}{suffix}"] = vector(3 * H)
    weights |= {"score.w_q": matrix(H, H), "score.w_k": matrix(H, 2 * H),
                "score.u": matrix(1, H)[0], "score.b": vector(H)}
    for name, rows, columns in (("initial.0", H, 2 * H), ("readout", H, 4 * H), ("output", n.V, H)):
        weights[f"{name}.weight"] = matrix(rows, columns)
        weights[f"{name}.bias"] = vector(rows)
    weights["output.bias"][END] = -1e4
    return weights


def make_batches(n):
    """Words by Zipf's law; the target is the source read backwards."""
    import numpy as np
    random = np.random.default_rng(2)
    p = 1 / np.arange(1, n.V - 3)
    words = random.choice(np.arange(4, n.V), (n.steps, n.T, n.B), p=p / p.sum()).astype(np.int64)
    out = np.ascontiguousarray(words[:, ::-1])
    begin = np.full((n.steps, 1, n.B), 2, np.int64)
    return {"source": words, "target_in": np.concatenate((begin, out[:, :-1]), 1),
            "target_out": out}


class Side(workers.Side):
    def __init__(self, label, command, threads):
        super().__init__(label, command, threads)
        self.losses, self.step_ns, self.tokens, self.sentence_ns = [], [], [], []

    def train(self, first, steps):
        answer = self.ask({"train": {"from": first, "steps": steps}})
        self.losses += answer["losses"]
        self.step_ns += answer["ns"]

    def decode(self, first, count, longest):
        answer = self.ask({"decode": {"from": first, "count": count, "longest": longest}})
        self.tokens += answer["tokens"]
        self.sentence_ns += answer["ns"]

    def result(self):
        return {"step_ms": median(self.step_ns) / 1e6,
                "sentence_ms": median(self.sentence_ns) / 1e6, "step_ns": self.step_ns,
                "sentence_ns": self.sentence_ns, "losses": self.losses}


def distinct_of(side):
    return len({tuple(tokens) for tokens in side.tokens})


def commands_of(options):
    """[(label, command)] of Fovea and, where it is wanted and there, of PyTorch."""
    peers = program.peer("seq2seq_torch") if options.peers == "torch" else []
    return ([("fovea", [os.path.join(options.build, "bench", "translate")])]
            + [(f"torch {version}", command) for version, command in peers])


def sides_of(options):
    first = 1 if options.without_fovea else 0
    return [Side(label, command, options.threads)
            for label, command in commands_of(options)[first:]]


def measure(options, sides, n):
    from harness import tensors
    with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
        weights, batches = (os.path.join(folder, name) for name in ("weights", "batches"))
        tensors.save(weights, make_weights(n))
        tensors.save(batches, make_batches(n))
        load = {"vocabulary": n.V, "embedding": n.H, "hidden": n.H, "weights": weights,
                "batches": batches, "fused": not options.unfused, "graph": options.graph,
                "device": options.device}
        for side in sides:
            note(f"{side.label}: loads")
            side.ask({"load": load})
        rest = n.sentences // 4
        for first in range(0, n.sentences, rest):  # before training: weights are the same
            for side in workers.in_turn(sides, first // rest):
                note(f"{side.label}: decodes from {first}")
                side.decode(first, rest, n.T)
        for first in range(0, n.steps, n.turn):
            for side in workers.in_turn(sides, first // n.turn):
                note(f"{side.label}: trains from {first}")
                side.train(first, n.turn)
    note("")


def faults_of(us, peer):
    faults = []
    for step, (a, b) in enumerate(zip(us.losses, peer.losses)):
        if not abs(a - b) <= LOSS_TOLERANCE:
            faults.append(f"loss of step {step + 1}: {a:.6f}, {peer.label} has {b:.6f}")
    same = sum(a == b for a, b in zip(us.tokens, peer.tokens)) / len(us.tokens)
    if same < SAME_SENTENCES:
        faults.append(f"only {same:.0%} of the sentences decoded are those of {peer.label}")
    distinct = distinct_of(us) / len(us.tokens)
    if distinct < DISTINCT_SENTENCES:
        faults.append(f"only {distinct:.0%} of the sentences decoded differ from one another")
    return faults


def show(sides):
    print(f"{'':24}{'training, ms a step':>22}{'decoding, ms a sentence':>26}"
          "   loss, first and last")
    for side in sides:
        result = side.result()
        print(f"{side.label:24}{result['step_ms']:22.1f}{result['sentence_ms']:26.2f}"
              f"   {side.losses[0]:.4f} {side.losses[-1]:.4f}")
    if len(sides) == 2:
        us, peer = (side.result() for side in sides)
        print(f"{'ratio':24}{peer['step_ms'] / us['step_ms']:21.2f}×"
              f"{peer['sentence_ms'] / us['sentence_ms']:25.2f}×")
        worst = max(abs(a - b) for a, b in zip(sides[0].losses, sides[1].losses))
        same = sum(a == b for a, b in zip(sides[0].tokens, sides[1].tokens))
        print(f"losses of {len(sides[0].losses)} steps differ by at most {worst:.1e}; "
              f"{same} of {len(sides[0].tokens)} sentences are the same, "
              f"{distinct_of(sides[0])} of them distinct")


def main():
    options = arguments()
    n = Shape(options.quick)
    sides = sides_of(options)
    report = program.begin(options, f"; B={n.B} T={n.T} V={n.V} H={n.H}")
    try:
        measure(options, sides, n)
    except workers.WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        workers.stop(sides)
    program.expect_any(options, sides)
    show(sides)
    faults = faults_of(*sides) if len(sides) == 2 else []
    report |= {"sides": {side.label: side.result() for side in sides}, "faults": faults}
    return program.finish(options, report, faults)


if __name__ == "__main__":
    sys.exit(main())
