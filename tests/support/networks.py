"""Tiny ONNX networks made for tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_network(path, size=32, inputs=1, batch="n", kind=TensorProto.FLOAT, seed=0):
    """Convolution, ReLU and mean: "pooled" (n, 5) and "maps" (n, 5, ., .); its filters (5, 3).

    The first output is "pooled". With two inputs, the second is unused by the first output.
    """
    filters = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
    typed = filters.astype(helper.tensor_dtype_to_np_dtype(kind))
    weights = numpy_helper.from_array(typed.reshape(5, 3, 1, 1), "filters")
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["mixed"]),
        helper.make_node("Relu", ["mixed"], ["maps"]),
        helper.make_node("ReduceMean", ["maps"], ["pooled"], axes=[2, 3], keepdims=0),
    ]
    given = [helper.make_tensor_value_info("image", kind, [batch, 3, size, size])]
    if inputs == 2:
        nodes.append(helper.make_node("Identity", ["other"], ["copy"]))
        given.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [1]))
    out = [
        helper.make_tensor_value_info("pooled", kind, [batch, 5]),
        helper.make_tensor_value_info("maps", kind, [batch, 5, size, size]),
    ]
    graph = helper.make_graph(nodes, "tiny", given, out, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return filters
