"""onnxruntime: its fused MultiHeadAttention operator; forward only, the runtime does not train.

Keys and values come as [B,H,L,D]; queries and the context are [B,L,H·D] there, which is how the
operator is made to be used, so they are laid out that way beforehand."""

import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from common import Peer

FLOAT = TensorProto.FLOAT


def model(case):
    B, H, Lq, Lk, D, Dv = (case[x] for x in ("B", "H", "Lq", "Lk", "D", "Dv"))
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["context"],
                            domain="com.microsoft", num_heads=H,
                            unidirectional=int(case["mask"] == "causal"))
    shapes = {"q": [B, Lq, H * D], "k": [B, H, Lk, D], "v": [B, H, Lk, Dv]}
    graph = helper.make_graph(
        [node], "attention",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("context", FLOAT, [B, Lq, H * Dv])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 9
    return made.SerializeToString()


def prepare(path, case, both, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    session = onnxruntime.InferenceSession(model(case), options)
    B, H, Lq, Dv = (case[x] for x in ("B", "H", "Lq", "Dv"))
    feeds = {"q": np.ascontiguousarray(inputs["q"].swapaxes(1, 2)).reshape(B, Lq, -1),
             "k": inputs["k"], "v": inputs["v"]}

    def step():
        return session.run(None, feeds)

    def outputs_of(result):
        context = result[0].reshape(B, Lq, H, Dv).swapaxes(1, 2)
        return {"context": np.ascontiguousarray(context)}

    return step, outputs_of


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(onnxruntime.__version__)
    else:
        Peer(prepare).serve()
