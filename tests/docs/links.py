#!/usr/bin/python3
"""Links and pictures of the documents lead somewhere: links.py SOURCE_DIR

Files that exist, and headings where a link has a #: as they are called on the pages of a repository, small
letters, dashes for spaces, without punctuation. Addresses elsewhere are not asked. Every page of docs/ is reached
from docs/README.md.
"""
import pathlib
import re
import sys

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def prose(text):
    """Without blocks and spans of code, whose brackets are no links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"^ {4,}.*$", "", text, flags=re.M)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page):
    found = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for heading in re.findall(r"^#+ +(.*)$", text, flags=re.M):
        plain = re.sub(r"[`*_]|\[|\]\([^)]*\)", "", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 1
        while name in found:
            name = f"{re.sub(r'-[0-9]+$', '', name)}-{number}"
            number += 1
        found.add(name)
    return found


def check(page, source):
    wrong, reached = [], set()
    for target in LINK.findall(prose(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            wrong.append(f"{page.relative_to(source)}: there is no {target}")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            wrong.append(f"{page.relative_to(source)}: {target} has no such heading")
        reached.add(file)
    return wrong, reached


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    pages = sorted([*source.glob("*.md"), *source.glob("docs/**/*.md")])
    wrong, count = [], 0
    for page in pages:
        found, reached = check(page, source)
        wrong += found
        count += len(reached)
        if page == source / "docs" / "README.md":
            missing = {p for p in pages if p.parent.is_relative_to(source / "docs")} - reached - {page}
            wrong += [f"docs/README.md does not lead to {p.relative_to(source)}" for p in sorted(missing)]
    print("\n".join(wrong))
    print(f"{len(pages)} pages, {count} links, {len(wrong)} broken")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
