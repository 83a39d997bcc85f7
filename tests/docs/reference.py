#!/usr/bin/python3
"""Every public symbol is documented: reference.py SOURCE_DIR

Of each header in include/fovea: the header says in a comment what it is for, and so does every declaration at
the scope of a namespace. A comment counts that stands directly above, on the same lines, or above another
declaration of the same group, which is what stands without an empty line between.
"""
import pathlib
import re
import sys

OPEN = re.compile(r"^(inline )?namespace [\w:]*\s*\{")
SKIPPED = re.compile(r"^(#|\}|class \w+;|struct \w+;|using namespace|namespace)")


def without_text(line):
    """Without strings, characters and comments, so that braces count."""
    line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', "0", line)
    return line.split("//")[0]


def declarations(lines):
    """(number of its first line, its lines, documented by a comment above its group) at the scope of a namespace."""
    depth, group, at = 0, False, None
    for number, line in enumerate(lines, 1):
        code, text = without_text(line), line.strip()
        if at is None:
            if not text:
                group = False
                continue
            if text.startswith("//"):
                group = True
                continue
            if OPEN.match(text) or SKIPPED.match(text):
                group = group and not text.startswith("#")
                continue
            at, block = number, []
        block.append(line)
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        if depth <= 0 and code.rstrip().endswith((";", "}", "};")):
            # A line that is commented documents those below it in its group, too.
            own = any("//" in l for l in block)
            yield at, block, group or own
            group = group or own
            depth, at = 0, None


def name_in(block):
    text = " ".join(without_text(l).strip() for l in block)
    return re.sub(r"\s+", " ", text)[:90]


def check(header):
    lines = header.read_text().splitlines()
    # Lines that go on: an operator or a comma, a template's head.
    wrong = []
    first = next((i for i, l in enumerate(lines) if OPEN.match(l.strip())), None)
    before = lines[:first] if first is not None else lines
    after = lines[first + 1:first + 4] if first is not None else []
    if not any(l.startswith("//") for l in before + after):
        wrong.append(f"{header.name}: says nowhere what it is for")
    for number, block, documented in declarations(lines):
        if not documented:
            wrong.append(f"{header.name}:{number}: {name_in(block)}")
    return wrong


def main():
    headers = sorted((pathlib.Path(sys.argv[1]) / "include" / "fovea").glob("*.h"))
    wrong = [w for header in headers for w in check(header)]
    print("\n".join(wrong))
    count = sum(1 for h in headers for _ in declarations(h.read_text().splitlines()))
    print(f"{len(headers)} headers, {count} declarations, {len(wrong)} without a comment")
    return 1 if wrong or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
