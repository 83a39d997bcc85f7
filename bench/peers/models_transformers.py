"""Generation by PyTorch + transformers. It answers as bench/models.cc does:

  {"load": {"folder": DIR, "type": "bfloat16"}}
  {"generate": {"prompt": [1, 2, 3], "count": 64}}    one sequence, greedily
"""

import os
import time

import torch
import transformers

from common import ModelPeer

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Generation(ModelPeer):
    def __init__(self):
        super().__init__()
        self.model = None

    def load(self, options):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            options["folder"], dtype=getattr(torch, options["type"])).eval()
        return {"threads": torch.get_num_threads()}

    @torch.inference_mode()
    def generate(self, options):
        ids, count = torch.tensor([options["prompt"]]), options["count"]
        start = time.perf_counter_ns()
        found = self.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                    max_new_tokens=count, min_new_tokens=count, pad_token_id=0)
        ns = time.perf_counter_ns() - start
        return {"tokens": found[0, ids.shape[1]:].tolist(), "ns": ns}


if __name__ == "__main__":
    Generation.main(f"{transformers.__version__} (torch {torch.__version__})")
