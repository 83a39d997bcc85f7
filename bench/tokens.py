#!/usr/bin/env python3
"""Text to tokens beside the package `tokenizers`, one thread each, in turns, by processor time: ./dev bench tokens FOLDER…

    --text FILE       English, a line a text; without it, the project's documents, a few times over
    --long            paragraphs of about 64 KiB instead of lines
    --rounds N        turns of each; the best counts
Folders have a tokenizer.json (tests/tokens/make_tokenizers.py makes some). Needs: pip install tokenizers
"""
import argparse
import glob
import os
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def english():
    text = ""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as page:
            text += "".join(c for c in page.read() if c.isascii())
    return [line for line in text.split("\n") if len(line) > 40] * 4


def in_long_lines(lines):
    whole, part = [], ""
    for line in lines:
        part += line + " "
        if len(part) > 1 << 16:
            whole.append(part)
            part = ""
    return whole + [part]


def main():
    import tokenizers
    from harness.workers import Worker
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folders", nargs="+")
    arguments.add_argument("--build", default=os.path.join(ROOT, "build"))
    arguments.add_argument("--text")
    arguments.add_argument("--long", action="store_true")
    arguments.add_argument("--rounds", type=int, default=5)
    asked = arguments.parse_args()
    lines = english() if asked.text is None else [x for x in open(asked.text, encoding="utf-8").read().split("\n") if x]
    if asked.long:
        lines = in_long_lines(lines)
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    print(f"tokenizers {tokenizers.__version__}; {len(lines)} texts, {megabytes:.1f} MB, best of {asked.rounds}")
    print(f"{'':12} {'fovea MB/s':>11} {'peer MB/s':>10} {'ratio':>6} {'open ms':>8} {'peer ms':>8}")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        for folder in asked.folders:
            start = time.process_time()
            peer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
            opened = time.process_time() - start
            worker = Worker([os.path.join(asked.build, "bench", "tokens")], 1)
            worker.start()
            worker.ask({"load": {"folder": folder, "file": file.name}})
            ours, theirs = [], []
            for _ in range(asked.rounds):
                answer = worker.ask({"encode": {}})
                ours.append(answer["ns"] / 1e9)
                start = time.process_time()
                count = sum(len(peer.encode(line).ids) for line in lines)
                theirs.append(time.process_time() - start)
                assert count == answer["tokens"], (count, answer["tokens"])
            worker.stop()
            a, b = megabytes / min(ours), megabytes / min(theirs)
            name = os.path.basename(folder.rstrip("/"))
            print(f"{name:12} {a:11.1f} {b:10.1f} {a / b:6.1f} {answer['open_ns'] / 1e6:8.1f} {opened * 1e3:8.1f}",
                  flush=True)


if __name__ == "__main__":
    main()
