"""A model that somebody else trained, GPT-2 small's size with random weights, beside PyTorch +
transformers and CTranslate2: the same weights in float32, 16 and 8 bits, the same prompts, the same
threads, one run, taking turns.

    ./dev bench models [--peers transformers,ctranslate2] [--prompts 16,512] [--count 48] [--turns 4]

Reading is the time to the first token, writing that of each further one, by the clock and by the
processor. Tokens of the same type are compared."""

import json
import os
import sys
from dataclasses import asdict

from harness import program, tensors, workers
from harness.program import median, note
from harness.workers import WorkerError, cpu_nanoseconds, in_turn, stop
from lm import GENERATIONS, VARIED, make_weights

MODEL = GENERATIONS[-1].model
SAME_TOKENS = 0.9  # a share, in float32: a near tie may fall either way and changes all that follows
# A side: who, the type it is asked for, what it stands beside.
OURS = ("float32", "bf16", "int8")
PEERS = {"transformers": ("models_transformers", ("float32", "bfloat16"), "torch transformers"),
         "ctranslate2": ("lm_ctranslate2", ("float32", "int8"), "ctranslate2 numpy")}
BITS = {"float32": 32, "bf16": 16, "bfloat16": 16, "int8": 8}
# Ours, over what, and how many times as fast it is asked to be.
ASKED = (("float32", "the best peer in float32", 1.0), ("bf16", "fovea float32", 1.7),
         ("int8", "ctranslate2 int8", 1.0))


def lengths(text):
    return [program.at_least(1)(n) for n in text.split(",")]


def arguments():
    parser = program.parser_of("models", __doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="which to compare with, or none")
    parser.add_argument("--prompts", type=lengths, default="16,512", help="lengths, in tokens")
    parser.add_argument("--count", type=program.at_least(2), default=48, help="tokens to write")
    parser.add_argument("--turns", type=program.at_least(1), default=4)
    options = program.parse(parser)
    options.peers = [p for p in options.peers.split(",") if p and p != "none"]
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"no peer '{name}'; there are {', '.join(PEERS)}")
    return options


def theirs(name):
    """Where a tensor of ours stands in GPT-2's files."""
    for ours, own in (("target.weight", "wte.weight"), ("decoder.positions", "wpe.weight"),
                      ("decoder.norm", "ln_f"), ("decoder.", "h."), (".self_norm", ".ln_1"),
                      (".mlp_norm", ".ln_2"), (".self.in", ".attn.c_attn"),
                      (".self.out", ".attn.c_proj"), (".mlp.up", ".mlp.c_fc"),
                      (".mlp.down", ".mlp.c_proj")):
        name = name.replace(ours, own)
    return "transformer." + name


def write_model(folder):
    """A folder as hubs have them, and the weights by our names; made once."""
    config = os.path.join(folder, "config.json")
    if os.path.exists(config):
        return
    note("writes the model")
    os.makedirs(folder, exist_ok=True)
    weights = make_weights(MODEL, VARIED)
    tensors.save(os.path.join(folder, "weights"), weights)
    matrices = (".self.in.weight", ".self.out.weight", ".mlp.up.weight", ".mlp.down.weight")
    tensors.save(os.path.join(folder, "model.safetensors"),
                 {theirs(name): array.T.copy() if name.endswith(matrices) else array
                  for name, array in weights.items()})
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
                   "activation_function": "gelu", "n_embd": MODEL.width, "n_head": MODEL.heads,
                   "n_layer": MODEL.blocks, "n_positions": MODEL.context,
                   "vocab_size": MODEL.vocabulary, "bos_token_id": 0, "eos_token_id": 0,
                   "tie_word_embeddings": True}, file)


class Side(workers.Side):
    def __init__(self, who, kind, command, threads):
        super().__init__(f"{who} {kind}", command, threads)
        self.who, self.kind = who, kind
        self.tokens, self.read, self.write = {}, {}, {}  # by the prompt's length

    def generate(self, request):
        pid = self.worker.process.pid
        before = cpu_nanoseconds(pid)
        answer = self.ask({"generate": request})
        return answer["tokens"], answer["ns"] / 1e6, (cpu_nanoseconds(pid) - before) / 1e6

    def load(self, folder):
        note(f"{self.label}: loads")
        self.worker.ask({"load": asdict(MODEL) | {"folder": folder, "type": self.kind,
                                                  "weights": os.path.join(folder, "weights")}})
        self.worker.ask({"generate": {"prompt": [1, 2], "count": 3}})  # what is made once

    def turn(self, prompt, count):
        note(f"{self.label}: reads {len(prompt)}, writes {count}")
        length = len(prompt)
        _, read, read_cpu = self.generate({"prompt": prompt, "count": 1})
        found, all_ms, all_cpu = self.generate({"prompt": prompt, "count": count})
        self.tokens.setdefault(length, []).append(found)
        self.read.setdefault(length, []).append((read, read_cpu))
        self.write.setdefault(length, []).append(
            ((all_ms - read) / (count - 1), (all_cpu - read_cpu) / (count - 1)))


def sides_of(options):
    """Fovea in its types, and the peers that are installed in theirs."""
    ours = [os.path.join(options.build, "bench", "models")]
    sides = [Side("fovea", kind, ours, options.threads) for kind in OURS]
    for name in options.peers:
        script, kinds, packages = PEERS[name]
        for version, command in program.peer(script, name, packages):
            print(f"{name} {version}")
            sides += [Side(name, kind, command, options.threads) for kind in kinds]
    return sides


def best(sides, length, what, those):
    """The fastest of some sides: its milliseconds by the clock."""
    times = [median([ms for ms, _ in getattr(side, what)[length]]) for side in sides if those(side)]
    return min(times, default=None)


def compared(sides, length):
    """Ours over what it is asked to be ahead of, for writing and reading."""
    ratios = {}
    for what in ("write", "read"):
        own = {k: best(sides, length, what, lambda s, k=k: s.label == f"fovea {k}") for k in OURS}
        peers = {"the best peer in float32":
                 best(sides, length, what, lambda s: s.who != "fovea" and s.kind == "float32"),
                 "fovea float32": own["float32"],
                 "ctranslate2 int8":
                 best(sides, length, what, lambda s: s.label == "ctranslate2 int8"),
                 "the best peer in 16 bits":
                 best(sides, length, what, lambda s: s.who != "fovea" and BITS[s.kind] == 16)}
        pairs = [(kind, over) for kind, over, _ in ASKED] + [("bf16", "the best peer in 16 bits")]
        ratios[what] = {f"fovea {kind} over {over}": peers[over] / own[kind]
                        for kind, over in pairs if peers[over] is not None}
    return ratios


def faults_of(sides, length):
    ours = sides[0].tokens[length]
    lines = []
    for side in sides[1:]:
        pairs = [(a, b) for own, other in zip(ours, side.tokens[length])
                 for a, b in zip(own, other)]
        same = sum(a == b for a, b in pairs) / len(pairs)
        side.same = same
        if side.kind == "float32" and same < SAME_TOKENS:
            lines.append(f"prompt of {length}: only {same:.0%} of the tokens are those of "
                         f"{side.label}")
    return lines


def show(sides, length, ratios):
    print(f"\nprompt of {length} tokens          reading: ms (processor), tokens/s"
          "     writing: ms a token (processor), tokens/s")
    for side in sides:
        read, read_cpu = (median([t[i] for t in side.read[length]]) for i in (0, 1))
        write, write_cpu = (median([t[i] for t in side.write[length]]) for i in (0, 1))
        print(f"  {side.label:24}{read:12.1f} ({read_cpu:8.1f}){1e3 * length / read:9.0f}"
              f"{write:18.2f} ({write_cpu:6.2f}){1e3 / write:9.1f}"
              + (f"   {side.same:.0%} of the tokens those of {sides[0].label}"
                 if side is not sides[0] else ""))
    for what, title in (("write", "writing"), ("read", "reading")):
        for name, ratio in ratios[what].items():
            print(f"  {title}: {name}: {ratio:.2f}×")


def run(options, sides):
    results, faults = [], []
    folder = os.path.join(options.build, "bench", "gpt2-small")
    write_model(folder)
    for side in sides:
        side.load(folder)
    for number in range(options.turns):
        for length in options.prompts:
            prompt = [(7 * number + 13 * i) % (MODEL.vocabulary - 1) + 1 for i in range(length)]
            for side in in_turn(sides, number):
                side.turn(prompt, options.count)
    note("")
    for length in options.prompts:
        ratios = compared(sides, length)
        faults += faults_of(sides, length)
        show(sides, length, ratios)
        results.append({"prompt": length, "ratios": ratios,
                        "sides": {s.label: {"read_ms": s.read[length], "write_ms": s.write[length]}
                                  for s in sides}})
    return results, faults


def main():
    options = arguments()
    report = program.begin(options)
    sides = sides_of(options)
    try:
        results, faults = run(options, sides)
    except WorkerError as error:
        sys.exit(f"bench: {error}")
    finally:
        stop(sides)
    return program.finish(options, report | {"model": asdict(MODEL), "prompts": results}, faults)


if __name__ == "__main__":
    sys.exit(main())
