#!/usr/bin/python3
"""Every command that the documents show, run as written: commands.py SOURCE_DIR FOVEA [PAGE...]

A command is a line of an indented block that begins with fovea, build/fovea, sed, ./dev, recipes/ or a variable
that is set for one of them. A page's commands run in order, in one folder of the page's own; the files that
a reader would bring (pairs.tsv, photos/, in.safetensors …) lie there, small ones of that form.

What is not as a reader has it, so that all of it takes a minute:
- `train` and `demo` learn for two steps from few examples, a language model with one small block; `reproduce` has
  the least effort, one seed and the page's small files; `rank` of a fresh model has a small one; `faithful` asks about
  two inputs. Whatever else is typed reaches the program. A page that trains something first goes on with what that
  gave, however bad.
- `serve` is asked for its page once, at any free port, and stopped.
- `./dev` builds and tests, so only its words are checked: that `./dev help` has the verb, and that a
  benchmark of that name exists.
- `reproduce dong2021` cannot be made smaller, and is read like those of the next paragraph.
A line with a placeholder ([DATA], RUN, PAPER, …) cannot be run; there, and for commands within a sentence,
every --option must be one that the verb's help has.
"""
import concurrent.futures
import functools
import gzip
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

COMMAND = re.compile(r"^ {4,}((?:[A-Z_]+=\S+ )*(?:build/)?(?:fovea|sed|\./dev|recipes/\S+)(?: .*)?)$")
WITHIN = re.compile(r"`((?:build/)?fovea [a-z][^`]*|\./dev [a-z][^`]*)`")
FULL_SIZE = "reproduce dong2021"  # a BERT-base, half a minute
PLACEHOLDER = re.compile(r"[\[\]…]|(?<![\w/.\-])[A-Z]{2,}(?:\.\w+)?(?![\w/.\-=])")


# ---- What a reader brings ------------------------------------------------------------------------


def png(path, side, colour):
    rows = b"".join(b"\0" + bytes(v for x in range(side) for v in (colour if (x // 8 + y // 8) % 2 else (250, 250, 250)))
                    for y in range(side))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def safetensors(path, shapes, more=None):
    header, data = {}, b""

    def add(name, kind, shape, packed):
        nonlocal data
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed

    for name, shape in shapes.items():
        count = functools.reduce(lambda a, b: a * b, shape)
        values = [((i * 7919 + len(name) * 31) % 1000) / 500 - 1 for i in range(count)]
        add(name, "F32", shape, struct.pack(f"<{count}f", *values))
    for name, whole in (more or {}).items():
        add(name, "I64", [len(whole)], struct.pack(f"<{len(whole)}q", *whole))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def attention_inputs(path):
    batch, heads, length, width = 2, 2, 12, 8
    rows = [batch, heads, length, width]
    safetensors(path, {"q": rows, "k": rows, "v": rows, "d_context": rows, "w": [width, width], "w_q": [width, width],
                       "w_k": [width, width], "u": [width]}, {"lengths": [12, 9]})


def digits(folder):
    def write(name, magic, shape, values):
        with gzip.open(folder / f"{name}.gz", "wb") as file:
            file.write(struct.pack(f">I{len(shape)}I", magic, *shape) + bytes(values))

    folder.mkdir()
    for part, count in (("train", 60), ("t10k", 20)):
        pixels = [(i // 784 * 37 + i % 784) % 256 for i in range(count * 784)]
        write(f"{part}-images-idx3-ubyte", 0x803, [count, 28, 28], pixels)
        write(f"{part}-labels-idx1-ubyte", 0x801, [count], [i % 10 for i in range(count)])


MODELS = {"gpt2-small": "gpt2", "bert-base": "bert_fills", "opus-mt": "marian", "vit-base": "vit"}


def bring(folder, source):
    for name, golden in MODELS.items():
        shutil.copytree(source / "tests" / "checkpoints" / "golden" / golden, folder / name)
    words = "one two three four five six seven eight nine ten".split()
    mots = "un deux trois quatre cinq six sept huit neuf dix".split()
    pairs = [(f"{words[i % 10]} {words[i // 10]}", f"{mots[i % 10]} {mots[i // 10]}") for i in range(100)]
    tsv = "".join(f"{n} {a}\t{n} {b}\n" for n in range(1, 6) for a, b in pairs)
    for name in ("pairs.tsv", "more.tsv"):
        (folder / name).write_text(tsv)
    tale = "".join(f"Once upon a time there were {a}, and {b} of them saw the sea.\n" for a, b in pairs)
    for name in ("book.txt", "other.txt"):
        (folder / name).write_text(tale)
    (folder / "in.txt").write_text("The film is not dull.\n3rd of May 2021\n")

    texts = [("positive", f"The film is fine, said {a}. I like {b}.") if i % 2 else
             ("negative", f"The film is dull, said {b}. I left at {a}.") for i, (a, b) in enumerate(pairs)]
    (folder / "reviews.csv").write_text("label,text\n" + "".join(f'{c},"{t}"\n' for c, t in texts))
    (folder / "more.jsonl").write_text("".join(json.dumps({"label": c, "text": t}) + "\n" for c, t in texts[:20]))
    for i, (label, text) in enumerate(texts):
        (folder / "reviews" / label).mkdir(parents=True, exist_ok=True)
        (folder / "reviews" / label / f"{i}.txt").write_text(text)

    for i in range(60):
        colour = ((200, 30, 30) if i % 2 else (30, 30, 200))
        for home in ("photos", "more"):
            png(folder / home / ("red" if i % 2 else "blue") / f"{i}.png", 48 + i % 9, colour)
    png(folder / "photo.jpg", 80, (30, 160, 60))
    captions = "".join(f"photos/{'red' if i % 2 else 'blue'}/{i}.png\ta {'red' if i % 2 else 'blue'} board\n"
                       for i in range(60))
    for name in ("captions.tsv", "more-captions.tsv"):
        (folder / name).write_text(captions)
    safetensors(folder / "places.safetensors", {line.split("\t")[0]: [6, 3, 4] for line in captions.splitlines()})
    safetensors(folder / "more-places.safetensors", {"photo.jpg": [6, 3, 4]})

    digits(folder / "mnist")
    (folder / "digits.csv").write_text("".join(
        ",".join(str((i + 3 * j) % 256) for j in range(64)) + f",{i % 10}\n" for i in range(60)))
    (folder / "cmudict.dict").write_text("".join(f"{a.replace(' ', '')} AH{i % 3} N T{'' if i % 2 else ' IY0'}\n"
                                                 for i, (a, _) in enumerate(pairs)))
    attention_inputs(folder / "in.safetensors")


# ---- The pages -----------------------------------------------------------------------------------


class Checker:
    def __init__(self, source, program, folder):
        self.source, self.program, self.folder = source, program, folder
        self.brought = folder / "brought"
        self.brought.mkdir()
        bring(self.brought, source)
        self.stand_in = folder / "bin" / "fovea"
        self.stand_in.parent.mkdir()
        self.stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "{pathlib.Path(__file__).with_name("stand_in.py").resolve()}" "{program}" "$@"\n')
        self.stand_in.chmod(0o755)
        self.dev_help = subprocess.run([source / "dev", "help"], capture_output=True, text=True, check=True).stdout

    @functools.lru_cache(maxsize=None)
    def help_of(self, *verb):
        asked = subprocess.run([self.program, *verb, "--help"], capture_output=True, text=True)
        return asked.stdout if asked.returncode == 0 else ""

    def dev(self, words):
        """What is wrong with ./dev WORDS."""
        if not re.search(rf"^\./dev {re.escape(words[0])}\b", self.dev_help, re.M):
            return f"./dev help has no {words[0]}"
        if words[0] == "bench" and not (self.source / "bench" / f"{words[1]}.py").exists():
            return f"there is no bench/{words[1]}.py"
        if words[0] == "bench":
            known = "".join(p.read_text() for p in (self.source / "bench").glob("**/*.py"))
            wrong = [o for o in words if o.startswith("--") and f'"{o}"' not in known]
            return f"{' '.join(wrong)} of bench/{words[1]}.py" if wrong else ""
        return ""

    def options(self, line):
        """What is wrong with the verb and the options of a line that cannot be run."""
        words = line.replace("build/fovea", "fovea").split()
        if words[0] == "./dev":
            return self.dev(words[1:])
        if words[1] in ("VERB", "TASK"):
            return ""
        verb = [words[1]]
        if not re.search(rf"^  {re.escape(verb[0])} ", self.help_of(), re.M):
            return f"no verb {verb[0]}"
        text = self.help_of(*verb)
        if verb == ["train"] or verb == ["demo"]:
            tasks = re.findall(r"^  (\w+)  ", self.help_of("train"), re.M)
            named = [words[2]] if len(words) > 2 and words[2] in tasks else tasks
            text += "".join(self.help_of("train", task) for task in named)
        known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
        wrong = [o for o in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line) if o not in known]
        return f"{' '.join(wrong)} of fovea {verb[0]}" if wrong else ""

    def run(self, line, folder):
        environment = dict(os.environ, PATH=f"{self.stand_in.parent}:{os.environ['PATH']}", FOVEA=str(self.stand_in),
                           FOVEA_THREADS="1", MINUTES="0.01")
        began = time.monotonic()
        try:
            done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=120)
        except subprocess.TimeoutExpired:
            return "took over two minutes", 120.0
        took = time.monotonic() - began
        return (f"exit code {done.returncode}: {done.stderr.strip()[-600:]}" if done.returncode else ""), took

    def page(self, page):
        """(lines that ran, lines read, what is wrong, seconds by line) of one page."""
        folder = self.folder / "pages" / re.sub(r"\W", "-", page)
        shutil.copytree(self.brought, folder)
        (folder / "build").mkdir()
        (folder / "build" / "fovea").symlink_to(self.stand_in)
        for home in ("recipes", "examples"):
            (folder / home).symlink_to(self.source / home)
        ran, read, wrong, seconds = 0, 0, [], []
        text = (self.source / page).read_text()
        for number, line in enumerate(text.splitlines(), 1):
            found = COMMAND.match(line)
            if not found:
                spans = WITHIN.findall(line)
                problems = [self.options(span) for span in spans]
                read += len(spans)
            elif found.group(1).startswith("./dev"):
                problems = [self.dev(found.group(1).split()[1:])]
                read += 1
            elif FULL_SIZE in line or PLACEHOLDER.search(re.sub(r"\"[^\"]*\"|#.*|^([A-Z_]+=\S+ )*", "", found.group(1))):
                problems = [self.options(found.group(1))]
                read += 1
            else:
                problem, took = self.run(found.group(1), folder)
                problems = [problem]
                seconds.append((took, f"{page}:{number} {found.group(1)}"))
                ran += 1
            wrong += [f"{page}:{number}: {line.strip()}\n    {problem}" for problem in problems if problem]
        return ran, read, wrong, seconds


def main():
    source, program = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    pages = sys.argv[3:] or ["README.md", *sorted(str(p.relative_to(source)) for p in source.glob("docs/**/*.md"))]
    with tempfile.TemporaryDirectory(prefix="fovea-docs-") as folder:
        checker = Checker(source, program, pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(checker.page, pages))
    wrong = [problem for result in results for problem in result[2]]
    slowest = sorted((entry for result in results for entry in result[3]), reverse=True)[:8]
    for took, line in slowest:
        print(f"{took:6.1f} s  {line}")
    for problem in wrong:
        print(f"broken: {problem}")
    print(f"{sum(r[0] for r in results)} commands ran, {sum(r[1] for r in results)} were read, {len(wrong)} are wrong; "
          f"{len(pages)} pages")
    return 1 if wrong or not sum(r[0] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
