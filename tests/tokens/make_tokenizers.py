#!/usr/bin/env python3
"""Trains small tokenizers of every kind on the project's own text.

    python3 tests/tokens/make_tokenizers.py FOLDER [--size 400] [--real-map]

Writes FOLDER/NAME/tokenizer.json for each kind, and FOLDER/marian with two .spm files. With --real-map
the normalizers Precompiled have SentencePiece's own table (nmt_nfkc, 240 KB) instead of a few rules.
Needs: pip install tokenizers sentencepiece
"""
import argparse
import glob
import io
import json
import os

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

from unicode_table import fields

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
RULES = {"ﬁ": "fi", "ﬂ": "fl", "Ａ": "A", "１": "1", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ",
         "\u3000": " ", "\u00ad": "", "\u200b": "", "…": "...", "½": "1⁄2", "e\u0301": "é", "A\u030a": "Å",
         "ｶﾞ": "ガ", "㌔": "キロ", "①": "1", "\u0301": "", "™": "TM"}


def lines():
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as text:
            for line in text:
                if line.strip():
                    yield line.rstrip("\n")


def spm(model_type, size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(lines())[:1500]), model_writer=model, vocab_size=size,
        model_type=model_type, hard_vocab_limit=False, minloglevel=3, **options)
    return model.getvalue()


def charsmap(real):
    options = {"normalization_rule_name": "nmt_nfkc"}
    if not real:
        with open("/tmp/rules.tsv", "w") as out:
            for a, b in RULES.items():
                out.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
        options = {"normalization_rule_tsv": "/tmp/rules.tsv"}
    model = spm("unigram", 200, **options)
    return dict(fields(dict(fields(model))[3]))[2]


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(lines(), trainer)
    return tokenizer


def byte_level(size, alphabet=True, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    letters = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    return train(tokenizer, trainers.BpeTrainer(vocab_size=size, initial_alphabet=letters, show_progress=False,
                                                special_tokens=["<|endoftext|>"]))


def gpt2(size, _):
    return byte_level(size)


def few_bytes(size, _):
    """Of bytes, but not of all: the others are left out."""
    return byte_level(size // 2, alphabet=False)


def roberta(size, _):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, True)
    return tokenizer


def split_bytes(size, pattern, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


def llama3(size, _):
    tokenizer = split_bytes(size, LLAMA3, True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def qwen(size, _):
    tokenizer = split_bytes(size, QWEN, False)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("Fovéa"),
                          AddedToken("eye", single_word=True), AddedToken("<br>", rstrip=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def fallback(size, pre=None, normalizer=None, **model):
    """Byte pairs of characters, with <0x00> … for those that are unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    train(tokenizer, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=80,
                                         special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = [t for t in written["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(content=" ", left=1)])
    return tokenizer


def llama2(size, _):
    return fallback(size, normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))


def mistral(size, _):
    return fallback(size, pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False))


def gemma(size, _):
    tokenizer = fallback(size, pre=pre_tokenizers.Split(" ", "merged_with_previous"),
                         normalizer=normalizers.Replace(" ", "▁"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def unknown(size, _):
    """Byte pairs with an unknown token, a prefix within words and a suffix at their end."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="@@", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return train(tokenizer, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=40,
                                                continuing_subword_prefix="@@", end_of_word_suffix="</w>",
                                                special_tokens=["[UNK]"]))


def bert(size, _, lower=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, limit_alphabet=120,
                                               special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def bert_cased(size, _):
    tokenizer = bert(size, _, lower=False)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(size, normalizer, special, pre):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return train(tokenizer, trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=special,
                                                    unk_token="<unk>"))


def t5(size, real):
    tokenizer = unigram(size, normalizers.Precompiled(charsmap(real)), ["<pad>", "</s>", "<unk>", "<extra_id_0>"],
                        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                 pre_tokenizers.Metaspace(prepend_scheme="always", split=True)]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)])
    return tokenizer


def albert(size, real):
    tokenizer = unigram(size, normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
        normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(charsmap(real)),
        normalizers.Replace(Regex(" {2,}"), " ")]),
        ["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, special=True)],
        pre_tokenizers.Metaspace(prepend_scheme="always", split=True))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def forms(size, _):
    """The other normal forms, and unigrams that fall back to bytes, without words."""
    tokenizer = unigram(size, normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.NFD()]),
                        ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)],
                        pre_tokenizers.Metaspace(prepend_scheme="never", split=True))
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = []
    written["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(written))


def contractions(*_):
    """Letters that join the letter behind them: where a word was cut shows in the ids."""
    letters = "stmdrevlSTMDREVLſK"
    vocabulary = ["?", "'", "a", *letters, *(letter + "a" for letter in letters)]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(vocabulary)},
                                     [(letter, "a") for letter in letters], unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    return tokenizer


def penalty(*_):
    """Unigrams where a cut with an unknown letter is worth 0.01 more than one without, or 0.01 less."""
    return Tokenizer(models.Unigram([("<unk>", 0), ("a", -15), ("bc", -15), ("de", -15), ("ab", -4.99),
                                     ("ad", -5.01)], unk_id=0))


KINDS = [contractions, penalty, gpt2, few_bytes, roberta, llama3, qwen, llama2, mistral, gemma, unknown, bert, bert_cased, t5, albert, forms]


def marian(folder, size, real):
    os.makedirs(folder, exist_ok=True)
    vocabulary = {"</s>": 0, "<unk>": 1}
    for side, seed in (("source", 0), ("target", 1)):
        rule = ("nmt_nfkc", "nmt_nfkc_cf")[seed] if real else "identity"
        model = spm("unigram", size + 20 * seed, normalization_rule_name=rule, bos_id=-1)
        with open(os.path.join(folder, side + ".spm"), "wb") as out:
            out.write(model)
        for number, value in fields(model):
            if number == 1:
                piece = dict(fields(value))[1].decode()
                vocabulary.setdefault(piece, len(vocabulary))
    vocabulary[">>fr<<"] = len(vocabulary)
    vocabulary["<pad>"] = len(vocabulary)
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as out:
        json.dump(vocabulary, out, ensure_ascii=False)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as out:
        json.dump({"tokenizer_class": "MarianTokenizer", "eos_token": "</s>", "unk_token": "<unk>",
                   "pad_token": "<pad>"}, out)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder")
    arguments.add_argument("--size", type=int, default=400)
    arguments.add_argument("--real-map", action="store_true")
    arguments.add_argument("--only", default="")
    asked = arguments.parse_args()
    for kind in KINDS:
        if asked.only and kind.__name__ not in asked.only.split(","):
            continue
        tokenizer = kind(max(asked.size, 340) if kind in (gpt2, roberta, llama3, qwen) else asked.size, asked.real_map)
        folder = os.path.join(asked.folder, kind.__name__)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
            out.write(tokenizer.to_str(pretty=False) + "\n")
    if not asked.only or "marian" in asked.only:
        marian(os.path.join(asked.folder, "marian"), asked.size, asked.real_map)


if __name__ == "__main__":
    main()
