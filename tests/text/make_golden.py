#!/usr/bin/env python3
"""Writes golden/pairs.tsv, 200 invented pairs, and golden/scores.json, what sacreBLEU says of them.

A line of pairs.tsv is hypothesis<TAB>reference[<TAB>second reference]."""
import json
import random
from pathlib import Path

import sacrebleu

SENTENCES = [
    "The ferry leaves at 10:30, but the bridge is open all night.",
    "She paid $1,000.50 for a second-hand piano; nobody could tune it.",
    'He said, "I don\'t know," and closed the door.',
    "Rain fell on the roof, on the yard and on the three sleeping dogs.",
    "Version 2.0-rc1 was released on 2021-03-14 (a Sunday).",
    "A well-known cook once told me: never trust a thin soup!",
    "&quot;Quiet&quot; &amp; &lt;slow&gt; is how the old engine was described.",
    "Is 3.14 close enough? For a wheel, yes; for an orbit, no.",
    "The committee's report runs to 1.250 pages, of which 12 are useful.",
    "My sister-in-law grows tomatoes, beans and far too many courgettes.",
    "Between 1999-2004 the mill stood empty, then a potter moved in.",
    "Send it to post@example.org or call 555-0100 before noon.",
    "If x < y and y <= z, then x < z [see the appendix].",
    "Nobody remembered who had painted the blue fence behind the school.",
    "The lamp flickered twice, hummed, and went out for good.",
    "50% of the apples/pears were bruised, 25 % were stolen.",
    "Le chat dort sur l'armoire, et personne n'ose le déranger.",
    "Qu'est-ce que tu penses de l'hiver à Besançon ?",
    "« Il pleut encore », dit-elle en fermant la fenêtre.",
    "Aujourd'hui, j'ai acheté 2,5 kg de pommes pour 3 €.",
    "Die Brücke über den Fluß wurde erst 1.200 Tage später wieder geöffnet.",
    "„Wann kommst du?“, fragte er; niemand antwortete.",
    "Das Äpfelchen rollte unter den Tisch und blieb dort liegen.",
    "¿Dónde está la llave del sótano? ¡No la encuentro!",
    "El niño comió tres naranjas, dos peras y un trozo de pan.",
    "Gli zii partono domani mattina con il treno delle 7.45.",
    "O barco voltou ao porto antes da tempestade começar.",
    "Старый мост закрыли на ремонт, и все ходят через парк.",
    "Зачем ты купил столько свечей? — спросила она.",
    "Kaupungin vanhin talo myytiin viime kesänä 84 500 eurolla.",
    "Çocuklar bahçede oynarken yağmur başladı.",
    "昨日は雨が降ったので、家で本を読みました。",
    "这座桥建于1932年，长约1,200米。",
    "他说：“我明天不来了。”",
    "오늘은 날씨가 좋아서 강가를 오래 걸었다.",
    "القطة تنام على السطح، والكلب يحرس الباب.",
    "החתול ישן על הגג והכלב שומר על הדלת.",
    "दो बच्चे नदी के किनारे पत्थर गिन रहे थे।",
    "Tonight 🎉 we dance 💃🏽, tomorrow we sleep 😴…",
    "E\u0301cole, cafe\u0301 and nai\u0308ve are written with combining marks here.",
    "Yes.",
    "No, never!",
]
REWRITES = [
    "The boat goes at 10:30, yet the bridge stays open through the night.",
    "For a used piano she gave $1,000.50; it could not be tuned.",
    "Shutting the door, he said that he did not know.",
    "It rained on the roof, the yard and three dogs that were asleep.",
    "The release 2.0-rc1 came out on 2021-03-14, which was a Sunday.",
]


def perturb(text, draw):
    words = text.split(" ")
    for _ in range(draw.choice([0, 1, 1, 2, 3, 5])):
        i = draw.randrange(len(words))
        kind = draw.randrange(8)
        if kind == 0 and len(words) > 1:
            del words[i]
        elif kind == 1:
            words.insert(i, draw.choice(["the", "a", "very", "de", "und", "了", "-", "...", "1,5"]))
        elif kind == 2 and len(words) > 1:
            j = draw.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif kind == 3:
            words[i] = words[i].rstrip(".,!?;:") or "x"
        elif kind == 4:
            words[i] = words[i].swapcase()
        elif kind == 5:
            words.insert(i, words[i])
        elif kind == 6 and len(words[i]) > 2:
            at = draw.randrange(len(words[i]))
            words[i] = words[i][:at] + words[i][at + 1:]
        elif kind == 7:
            words[i] = words[i] + draw.choice(["", " ", ".", "--", "'s", "\u00a0!", "\u3000"])
    return " ".join(words)


def pairs():
    draw = random.Random(20)
    rows = []
    for i in range(200):
        text = SENTENCES[i % len(SENTENCES)]
        reference = text if i < 120 else perturb(text, draw)
        hypothesis = perturb(text, draw)
        if i in (7, 90, 151):
            hypothesis = ""
        elif i in (33, 140):
            hypothesis = " ".join(perturb(s, draw) for s in SENTENCES[:30])
        elif i in (60, 61):
            hypothesis = SENTENCES[(i * 7) % len(SENTENCES)]
        elif i == 62:
            hypothesis = text
        row = [hypothesis, reference]
        if i % 3 == 0:
            rewritten = REWRITES[i % len(SENTENCES) % len(REWRITES)]
            row.append(rewritten if i % 2 and i % len(SENTENCES) < len(REWRITES)
                       else perturb(text, draw))
        rows.append(row)
    return rows


# What a line of a file cannot hold.
CASES = [
    (["first line\nsecond hyphen-\nated line, end."], [["first line second hyphenated line, end."]]),
    (["a <skipped>b c d e\n"], [["a b c d e"]]),
    (["a\u2003b\u3000c\u00a0d\te"], [["a b c d e"]]),
    (["&amp;lt; &amp;quot; &quot;&gt;x"], [["< \" \">x y"]]),
    ([".5, 5. ,5 5, .a a. 1.a a.1 ..2 2.."], [["0.5, 5. ,5 5, .a a. 1.a a.1 ..2 2.. -"]]),
    (["1-2 a-1 1-a --1 1--"], [["1 - 2 a-1 1- a --1 1--"]]),
    (["the the the the the the the"], [["the cat is on the mat", "there is a cat on the mat"]]),
    (["one two three four"], [["one two three", "one two three four five"]]),
    (["ab"], [["abcdef"]]),
    (["abcdefg"], [["ab", "a"]]),
    (["abcdefg", "abcxyz"], [["ab"], ["abcxyx"]]),
    (["x"], [["y"]]),
    (["", ""], [["", ""], ["a"]]),
    (["", "a b c d e"], [["z"], ["a b c d e"]]),
    (["one two three"], [["one two three"]]),
]


def score(hypotheses, references):
    width = max(len(own) for own in references)
    streams = [[own[i] if i < len(own) else None for own in references] for i in range(width)]
    return {"bleu": sacrebleu.corpus_bleu(hypotheses, streams, force=True).score,
            "chrf": sacrebleu.corpus_chrf(hypotheses, streams).score}


def main():
    folder = Path(__file__).parent / "golden"
    rows = pairs()
    (folder / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    spans = [(0, n) for n in (1, 10, 50, 100, 200)] + [(50, 50), (100, 100)]
    spans += [(i, 1) for i in range(2, 200, 2)]
    subsets = []
    for first, count in spans:
        part = rows[first:first + count]
        hypotheses = [row[0] for row in part]
        for references in (1, 2):
            own = [row[1:1 + references] for row in part]
            subsets.append({"first": first, "count": count, "references": references,
                            **score(hypotheses, own)})
    cases = [{"hypotheses": h, "references": r, **score(h, r)} for h, r in CASES]

    def lines(entries):
        return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"

    (folder / "scores.json").write_text(
        f'{{"sacrebleu": "{sacrebleu.__version__}",\n"subsets": {lines(subsets)},\n'
        f'"cases": {lines(cases)}}}\n')


if __name__ == "__main__":
    main()
