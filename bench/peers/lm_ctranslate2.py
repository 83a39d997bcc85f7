"""Generation by CTranslate2: the weights of bench/lm.py's Transformer as a model of GPT-2's
architecture. It answers as bench/lm.cc does:

  {"load": {"blocks": 6, "width": 384, "heads": 6, "context": 256, "vocabulary": V, "weights": FILE,
            "type": "int8"}}                          float32 where it is not said
  {"generate": {"prompt": [1, 2, 3], "count": 64}}    one sequence, greedily
"""

import os
import tempfile
import time

import ctranslate2
from ctranslate2.specs import common_spec, transformer_spec

from common import ModelPeer, tensors


def set_linear(spec, arrays, name):
    spec.weight = arrays[name + ".weight"]
    spec.bias = arrays[name + ".bias"]


def set_norm(spec, arrays, name):
    spec.gamma, spec.beta = arrays[name + ".weight"], arrays[name + ".bias"]


def spec_of(options):
    arrays = {name: array.copy() for name, array in tensors.load(options["weights"]).items()}
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        options["blocks"], options["heads"], pre_norm=True,
        activation=common_spec.Activation.GELU)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = decoder.projection.weight = arrays["target.weight"]
    decoder.position_encodings.encodings = arrays["decoder.positions"]
    set_norm(decoder.layer_norm, arrays, "decoder.norm")
    for number, layer in enumerate(decoder.layer):
        name = f"decoder.{number}"
        set_norm(layer.self_attention.layer_norm, arrays, name + ".self_norm")
        set_linear(layer.self_attention.linear[0], arrays, name + ".self.in")
        set_linear(layer.self_attention.linear[1], arrays, name + ".self.out")
        set_norm(layer.ffn.layer_norm, arrays, name + ".mlp_norm")
        set_linear(layer.ffn.linear_0, arrays, name + ".mlp.up")
        set_linear(layer.ffn.linear_1, arrays, name + ".mlp.down")
    spec.register_vocabulary([str(i) for i in range(options["vocabulary"])])
    for field in ("bos_token", "eos_token", "unk_token"):
        setattr(spec.config, field, "0")
    spec.validate()
    spec.optimize()
    return spec


def compute_type(options):
    kind = options.get("type", "f32")
    return {"f32": "float32"}.get(kind, kind)


class Generation(ModelPeer):
    def __init__(self):
        super().__init__()
        self.generator = None

    def load(self, options):
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        with tempfile.TemporaryDirectory(prefix="fovea-bench-") as folder:
            spec_of(options).save(folder)
            self.generator = ctranslate2.Generator(folder, device="cpu",
                                                   compute_type=compute_type(options),
                                                   inter_threads=1, intra_threads=threads)
        return {"threads": threads}

    def generate(self, options):
        prompt, count = [str(i) for i in options["prompt"]], options["count"]
        start = time.perf_counter_ns()
        result, = self.generator.generate_batch(
            [prompt], max_length=count, min_length=count, beam_size=1, sampling_topk=1,
            include_prompt_in_result=False)
        ns = time.perf_counter_ns() - start
        return {"tokens": list(result.sequences_ids[0]), "ns": ns}


if __name__ == "__main__":
    Generation.main(ctranslate2.__version__)
