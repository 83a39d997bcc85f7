"""Writes golden/NAME/: small random models as transformers saves them, and what it computes with them.

    python3 make_golden.py golden          (transformers 5.22.2, torch 2.13.0, on the CPU)

expected.safetensors beside each model holds `ids.N` [L] with `logits.N` [L,V] (or [classes]) for
several lengths, `batch.*` where sequences are padded, `greedy` (50 tokens after `prompt`), and of
translators `beam`, what a beam of four finds. Weights are drawn large, so that nothing is a tie.

Decoders, encoders and translators have a tokenizer beside them, trained on a few sentences: as large as
the model's vocabulary, of the kind that the architecture has.
"""

import io
import json
import shutil
import sys
from pathlib import Path

import sentencepiece
import tokenizers as tk
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

V, W, HEADS, BLOCKS, MLP = 61, 16, 4, 2, 24
LENGTHS = [1, 5, 14]


def drawn(model, seed):
    """Every weight anew: norms around 1, biases too, matrices as large as keeps rows apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad:  # positions that are computed
                continue
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() < 2:
                norm = name.endswith("weight") and "gemma" not in model.config.model_type
                p.copy_(0.2 * noise + (1.0 if norm else 0.0))
            else:
                p.copy_(noise * (0.7 if "embed" in name or "wte" in name else 1.5 / p.shape[-1] ** 0.5))
    model.tie_weights()
    return model.eval()


def ids_of(length, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, V, (length,), generator=generator)


def save(folder, model, expected, **how):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **how)
    save_file({k: t.contiguous() for k, t in expected.items()}, folder / "expected.safetensors")


TEXT = ["the old ship came back to the harbour before the storm", "she gave him the key of the house",
        "nobody knew why the clock had stopped", "the rain was over and they ran out", "a quick brown fox jumps"]


def byte_level():
    t = tk.Tokenizer(tk.models.BPE())
    t.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tk.decoders.ByteLevel()
    t.train_from_iterator(TEXT, tk.trainers.BpeTrainer(vocab_size=V, special_tokens=["<e>", "<s>"]))
    return t


def word_piece():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = tk.Tokenizer(tk.models.WordPiece(unk_token="[UNK]"))
    t.normalizer = tk.normalizers.BertNormalizer()
    t.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(TEXT, tk.trainers.WordPieceTrainer(vocab_size=V, special_tokens=special))
    t.post_processor = tk.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.decoder = tk.decoders.WordPiece()
    return t


def unigram():
    t = tk.Tokenizer(tk.models.Unigram())
    t.pre_tokenizer = tk.pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    t.train_from_iterator(TEXT, tk.trainers.UnigramTrainer(
        vocab_size=V, special_tokens=special, unk_token="<unk>"))
    t.post_processor = tk.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    t.decoder = tk.decoders.Metaspace()
    return t


def with_tokenizer(folder, t, **special):
    assert t.get_vocab_size() <= V, t.get_vocab_size()
    t.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps(special))


def marian_tokenizer(folder):
    """Pieces by SentencePiece, their ids by vocab.json."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=made, vocab_size=40, model_type="unigram",
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(made.getvalue())
    sp = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    pieces = [sp.id_to_piece(i) for i in range(sp.get_piece_size())]
    vocab = {"</s>": 0, "<unk>": 1}
    for piece in pieces:
        vocab.setdefault(piece, len(vocab)) if piece not in ("<s>", "</s>", "<unk>") else None
    vocab["<pad>"] = V - 1
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        dict(source_lang="en", target_lang="xx", unk_token="<unk>", eos_token="</s>", pad_token="<pad>")))


def decoder(model, prompt=6):
    expected = {}
    with torch.no_grad():
        for n, length in enumerate(LENGTHS):
            ids = ids_of(length, n)
            expected[f"ids.{n}"] = ids
            expected[f"logits.{n}"] = model(ids[None]).logits[0].float()
        start = ids_of(prompt, 100)
        model.generation_config.eos_token_id = None
        out = model.generate(start[None], max_new_tokens=50, do_sample=False, pad_token_id=0)
        expected["prompt"] = start
        expected["greedy"] = out[0, prompt:]
    return expected


def encoder(model, pad):
    expected = {}
    lengths = [4, 9, 6]
    with torch.no_grad():
        for n, length in enumerate(LENGTHS):
            ids = ids_of(length, n)
            expected[f"ids.{n}"] = ids
            expected[f"logits.{n}"] = model(ids[None]).logits[0]
        batch = torch.full((len(lengths), max(lengths)), pad)
        for row, length in enumerate(lengths):
            batch[row, :length] = ids_of(length, 50 + row)
        mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        logits = model(batch, attention_mask=mask.long()).logits
        if logits.dim() == 3:
            logits = logits * mask[:, :, None]
        expected |= {"batch.ids": batch, "batch.lengths": torch.tensor(lengths), "batch.logits": logits}
    return expected


def translator(model, pad, beams):
    lengths = [5, 9]
    source = torch.full((2, max(lengths)), pad)
    for row, length in enumerate(lengths):
        source[row, :length] = ids_of(length, 70 + row)
        source[row, length - 1] = model.config.eos_token_id
    mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
    target = torch.stack([ids_of(7, 80), ids_of(7, 81)])
    target[:, 0] = model.config.decoder_start_token_id
    expected = {"source": source, "lengths": torch.tensor(lengths), "target": target}
    with torch.no_grad():
        expected["logits"] = model(source, attention_mask=mask, decoder_input_ids=target).logits
        ends, model.generation_config.eos_token_id = model.generation_config.eos_token_id, None
        greedy = model.generate(source, attention_mask=mask, max_new_tokens=50, do_sample=False,
                                num_beams=1)
        expected["greedy"] = greedy[:, 1:]
        model.generation_config.eos_token_id = ends
        for row in range(2):
            own = source[row : row + 1, : lengths[row]]
            out = model.generate(own, num_beams=beams, max_new_tokens=20, do_sample=False)
            tokens = [t for t in out[0, 1:].tolist() if t not in (pad, model.config.eos_token_id)]
            expected[f"beam.{row}"] = torch.tensor(tokens, dtype=torch.int64)
    return expected


def gpt2(root):
    config = dict(vocab_size=V, n_embd=W, n_layer=BLOCKS, n_head=HEADS, n_positions=64)
    model = drawn(tf.GPT2LMHeadModel(tf.GPT2Config(**config)), 1)
    expected = decoder(model)
    save(root / "gpt2", model, expected)
    # The inner model by itself: names without a prefix.
    save(root / "gpt2_inner", model.transformer, {k: t for k, t in expected.items() if "greedy" not in k})
    # The output layer stored, and another than the embedding.
    save(root / "gpt2_untied", model, {})
    weights = load_file(root / "gpt2_untied" / "model.safetensors")
    output = torch.randn(V, W, generator=torch.Generator().manual_seed(9))
    weights["lm_head.weight"] = output
    save_file(weights, root / "gpt2_untied" / "model.safetensors", metadata={"format": "pt"})
    with torch.no_grad():
        hidden = model.transformer(ids_of(5, 1)[None]).last_hidden_state[0]
    save_file({"ids.0": ids_of(5, 1), "logits.0": hidden @ output.T},
              root / "gpt2_untied" / "expected.safetensors")
    small = drawn(tf.GPT2LMHeadModel(tf.GPT2Config(**config)), 2)
    expected = decoder(small)
    del expected["greedy"]
    save(root / "gpt2_bf16", small.to(torch.bfloat16), expected)


def llamas(root):
    common = dict(vocab_size=V, hidden_size=W, intermediate_size=MLP, num_hidden_layers=BLOCKS,
                  num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=128,
                  rms_norm_eps=1e-5)
    llama3 = dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=16)
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
    cases = {
        "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**common, attention_bias=True, mlp_bias=True)),
        "llama_scaled": (tf.LlamaForCausalLM, tf.LlamaConfig(
            **common, tie_word_embeddings=True, rope_parameters=llama3)),
        "mistral": (tf.MistralForCausalLM, tf.MistralConfig(**common, sliding_window=6)),
        "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config(
            **common, use_sliding_window=True, sliding_window=5, max_window_layers=1)),
        "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config(
            **common, head_dim=6, tie_word_embeddings=True, rope_parameters=yarn)),
        "gemma2": (tf.Gemma2ForCausalLM, tf.Gemma2Config(
            **common, head_dim=6, query_pre_attn_scalar=9, sliding_window=5)),
        "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(
            **(common | dict(num_hidden_layers=3)), head_dim=6, query_pre_attn_scalar=9,
            sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    }
    for seed, (name, (kind, config)) in enumerate(cases.items()):
        config._attn_implementation = "eager"
        model = drawn(kind(config), 10 + seed)
        how = dict(max_shard_size="9KB") if name == "llama" else {}
        save(root / name, model, decoder(model), **how)


def berts(root):
    common = dict(vocab_size=V, hidden_size=W, intermediate_size=MLP, num_hidden_layers=BLOCKS,
                  num_attention_heads=HEADS, max_position_embeddings=20)
    distil = dict(vocab_size=V, dim=W, hidden_dim=MLP, n_layers=BLOCKS, n_heads=HEADS,
                  max_position_embeddings=20)
    labels = dict(num_labels=3, id2label={0: "bad", 1: "fair", 2: "good"},
                  label2id={"bad": 0, "fair": 1, "good": 2})
    cases = {
        "bert_fills": (tf.BertForMaskedLM, tf.BertConfig(**common), 0),
        "bert_tells": (tf.BertForSequenceClassification, tf.BertConfig(**common, **labels), 0),
        "roberta_fills": (tf.RobertaForMaskedLM, tf.RobertaConfig(**common, layer_norm_eps=1e-5), 1),
        "roberta_tells": (tf.RobertaForSequenceClassification, tf.RobertaConfig(**common, **labels), 1),
        "distilbert_fills": (tf.DistilBertForMaskedLM, tf.DistilBertConfig(**distil), 0),
        "distilbert_tells": (tf.DistilBertForSequenceClassification,
                             tf.DistilBertConfig(**distil, **labels), 0),
        "albert_fills": (tf.AlbertForMaskedLM, tf.AlbertConfig(**common, embedding_size=8), 0),
        "albert_tells": (tf.AlbertForSequenceClassification,
                         tf.AlbertConfig(**common, embedding_size=8, **labels), 0),
    }
    for seed, (name, (kind, config, pad)) in enumerate(cases.items()):
        model = drawn(kind(config), 30 + seed)
        save(root / name, model, encoder(model, pad))


def marian(root):
    config = tf.MarianConfig(
        vocab_size=V, d_model=W, encoder_layers=2, decoder_layers=1, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=MLP, decoder_ffn_dim=MLP,
        max_position_embeddings=64, activation_function="swish", scale_embedding=True,
        pad_token_id=V - 1, decoder_start_token_id=V - 1, eos_token_id=0, forced_eos_token_id=0)
    model = drawn(tf.MarianMTModel(config), 51)
    with torch.no_grad():
        bias = 0.3 * torch.randn(1, V, generator=torch.Generator().manual_seed(5))
        bias[0, config.eos_token_id] += 2.4  # so that hypotheses end
        model.final_logits_bias.copy_(bias)
    model.generation_config.bad_words_ids = [[V - 1]]
    model.generation_config.forced_eos_token_id = None
    save(root / "marian", model, translator(model, V - 1, 4))


def t5(root):
    common = dict(vocab_size=V, d_model=W, d_kv=6, d_ff=8, num_heads=HEADS, num_layers=2,
                  num_decoder_layers=1, relative_attention_num_buckets=8,
                  relative_attention_max_distance=12, decoder_start_token_id=0)
    model = drawn(tf.T5ForConditionalGeneration(tf.T5Config(**common)), 60)
    save(root / "t5", model, translator(model, 0, 4))
    config = tf.T5Config(**common, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model = drawn(tf.T5ForConditionalGeneration(config), 61)
    # Version 5 ties what 1.1 has apart: its own output layer is written by hand.
    output = torch.randn(V, W, generator=torch.Generator().manual_seed(6))
    model.lm_head.weight = torch.nn.Parameter(output)
    expected = translator(model, 0, 4)
    save(root / "t5_gated", model, expected)
    weights = load_file(root / "t5_gated" / "model.safetensors")
    weights["lm_head.weight"] = output
    save_file(weights, root / "t5_gated" / "model.safetensors", metadata={"format": "pt"})


def vits(root):
    common = dict(hidden_size=W, intermediate_size=MLP, num_hidden_layers=BLOCKS,
                  num_attention_heads=HEADS, image_size=12, patch_size=4, num_labels=3)
    cases = {"vit": (tf.ViTForImageClassification, tf.ViTConfig(**common)),
             "deit": (tf.DeiTForImageClassificationWithTeacher, tf.DeiTConfig(**common))}
    for seed, (name, (kind, config)) in enumerate(cases.items()):
        model = drawn(kind(config), 80 + seed)
        pictures = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            expected = {"pictures": pictures, "logits": model(pictures).logits}
        save(root / name, model, expected)


def by_themselves(root):
    """Encoders without a head: the rows that come out."""
    sizes = dict(hidden_size=W, intermediate_size=MLP, num_hidden_layers=BLOCKS, num_attention_heads=HEADS)
    model = drawn(tf.BertModel(tf.BertConfig(vocab_size=V, max_position_embeddings=20, **sizes)), 90)
    expected = {}
    with torch.no_grad():
        for n, length in enumerate(LENGTHS):
            expected[f"ids.{n}"] = ids_of(length, n)
            expected[f"rows.{n}"] = model(ids_of(length, n)[None]).last_hidden_state[0]
    save(root / "bert_reads", model, expected)
    model = drawn(tf.ViTModel(tf.ViTConfig(image_size=12, patch_size=4, **sizes)), 91)
    pictures = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        expected = {"pictures": pictures, "rows": model(pictures).last_hidden_state}
    save(root / "vit_views", model, expected)


def main():
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    for make in (gpt2, llamas, berts, marian, t5, vits, by_themselves):
        make(root)
    mask = dict(mask_token="[MASK]", pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    for name in ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"):
        with_tokenizer(root / name, byte_level(), eos_token="<e>", bos_token="<s>")
    for name in ("bert", "roberta", "distilbert", "albert"):
        for kind in ("fills", "tells"):
            with_tokenizer(root / f"{name}_{kind}", word_piece(), **mask)
    with_tokenizer(root / "bert_reads", word_piece(), **mask)
    for name in ("t5", "t5_gated"):
        with_tokenizer(root / name, unigram(), eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
    marian_tokenizer(root / "marian")
    for folder in sorted(root.iterdir()):
        size = sum(f.stat().st_size for f in folder.iterdir())
        assert size <= 56_000, f"{folder.name} has {size} bytes"
        for file in folder.glob("*.json"):  # as few bytes as say it
            file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True) + "\n")


main()
