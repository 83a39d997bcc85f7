#!/usr/bin/python3
"""The program as the documents' commands have it, made small: stand_in.py FOVEA WORDS... (commands.py says how)

Started hundreds of times, so it imports nothing that it can do without."""
import os
import sys

SMALL = {"--steps": "2", "--examples": "100"}
SMALL_LM = {"--blocks": "1", "--query-depth": "48"}
SMALL_RANK = {"--blocks": "2", "--query-depth": "32", "--heads": "4", "--length": "8", "--sequences": "2"}
SMALL_FAITHFUL = {"--inputs": "2", "--permutations": "2", "--steps": "3"}
SMALL_PAPER = {"--effort": "0.01", "--seeds": "1"}
DATA_OF = {"bahdanau2015": "pairs.tsv", "luong2015": "pairs.tsv", "vaswani2017": "pairs.tsv", "xu2015": "captions.tsv",
           "yang2016": "reviews.csv", "jain2019": "reviews.csv", "mnih2014": "mnist"}


def with_options(words, options):
    """The options at these values, whatever else was said of them."""
    kept = []
    words = list(words)
    while words:
        word = words.pop(0)
        name = word.split("=")[0]
        if name not in options:
            kept.append(word)
        elif name == word and words:
            words.pop(0)
    return kept + [word for pair in options.items() for word in pair]


def shortened(words):
    verb, rest = words[0] if words else "", words[1:]
    if "--help" in words:
        return words
    if verb == "demo" or (verb == "train" and rest and not rest[0].startswith("-") and "--resume" not in rest):
        fresh_lm = words[:2] == ["train", "lm"] and "--from" not in words
        return with_options(words, SMALL | SMALL_LM if fresh_lm else SMALL)
    if verb == "reproduce" and rest:
        data = {"--data": DATA_OF[rest[0]]} if rest[0] in DATA_OF and "--data" not in rest else {}
        return with_options(words, SMALL_PAPER | data)
    if verb == "rank" and (not rest or rest[0].startswith("-")):
        return with_options(words, SMALL_RANK)
    return with_options(words, SMALL_FAITHFUL) if verb == "faithful" else words


def serve(program, words):
    """Served, asked once, stopped."""
    import re
    import signal
    import subprocess
    import urllib.request
    child = subprocess.Popen([program, *with_options(words, {"--port": "0"})], stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    found = re.search(r"http://\S+", line)
    page = ""
    if found:
        address = re.sub(r"//(0\.0\.0\.0|\[::\])", "//127.0.0.1", found.group())
        page = urllib.request.urlopen(address, timeout=20).read().decode()
    child.send_signal(signal.SIGINT)
    code = child.wait(20)
    return 0 if "<html" in page and code in (0, 3) else code or 1


def stand_in(program, words):
    if words and words[0] == "serve" and "--help" not in words:
        return serve(program, words)
    os.execv(program, [program, *shortened(words)])


if __name__ == "__main__":
    sys.exit(stand_in(sys.argv[1], sys.argv[2:]))
