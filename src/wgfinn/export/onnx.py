r"""ONNX, written node by node from the arrays of `plain_arrays`.

A converter from jax (jax2onnx 0.17) gave graphs that no runtime accepts for gradients with a free batch size, and
brings forty packages. The field is a product of perceptrons and their gradients: a dozen standard operators.
Everything is batch first, `(n, ...)`.
"""

from typing import Any

import numpy as np

from wgfinn._version import __version__
from wgfinn.artefact import Model
from wgfinn.export._optional import require
from wgfinn.export.arrays import Arrays, DType, plain_arrays
from wgfinn.models import Activation

# Old enough for every runtime of these years; nothing newer is needed.
OPSET, IR_VERSION = 17, 8


def onnx_bytes(model: Model, member: int | None, dtype: DType) -> bytes:
    """A graph x `(batch, state)` -> f `(batch, state)`, energy `(batch,)`, entropy `(batch,)`; f alone for a plain
    network. Names and units of the states and the unit of time are in its metadata."""
    onnx = require("onnx", "onnx")
    arrays = plain_arrays(model, member, dtype)
    graph = _Graph(onnx.helper, arrays, np.dtype(dtype), model.manifest.model.activation)
    outputs = _field(graph, arrays)
    n_states = len(model.names)
    shapes = {"f": ["batch", n_states], "energy": ["batch"], "entropy": ["batch"]}
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for name, value in outputs.items():
        graph.add("Identity", value, output=name)
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "wgfinn",
            [onnx.helper.make_tensor_value_info("x", kind, ["batch", n_states])],
            [onnx.helper.make_tensor_value_info(name, kind, shapes[name]) for name in outputs],
            [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="wgfinn",
        producer_version=__version__,
    )
    manifest = model.manifest
    properties = {"states": ", ".join(model.names), "units": ", ".join(manifest.units), "time_unit": manifest.time_unit}
    onnx.helper.set_model_props(proto, properties)
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()


class _Graph:
    """Nodes and constants under way; `add` returns the name of what a node makes."""

    def __init__(self, helper: Any, arrays: Arrays, dtype: np.dtype, activation: Activation):
        self.activation = activation
        self._helper = helper
        self._dtype = dtype
        self.nodes: list[Any] = []
        self.constants: Arrays = {}
        self._arrays = arrays

    def array(self, name: str) -> str:
        """An array of the model as a constant."""
        self.constants[name] = np.ascontiguousarray(self._arrays[name])
        return name

    def constant(self, name: str, value: Any, dtype: Any = None) -> str:
        self.constants[name] = np.asarray(value, dtype or self._dtype)
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        made = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, list(inputs), [made], **attributes))
        return made


def _field(graph: _Graph, arrays: Arrays) -> dict[str, str]:
    z = graph.add("Div", graph.add("Sub", "x", graph.array("shift")), graph.array("scale"))
    if "velocity.W0" in arrays:
        return {"f": _outward(graph, _perceptron(graph, arrays, "velocity", z)[-1])}
    energy, of_energy = _potential(graph, arrays, "energy", z)
    entropy, of_entropy = _potential(graph, arrays, "entropy", z)
    z, fading = _nearest(graph, z)
    reversible = _bracket(graph, arrays, "poisson", z, fading, annihilated=of_entropy, vector=of_energy)
    irreversible = _bracket(graph, arrays, "friction", z, fading, annihilated=of_energy, vector=of_entropy)
    return {"f": _outward(graph, graph.add("Add", reversible, irreversible)), "energy": energy, "entropy": entropy}


def _outward(graph: _Graph, velocity: str) -> str:
    return graph.add("Div", graph.add("Mul", velocity, graph.array("scale")), graph.array("time"))


def _perceptron(graph: _Graph, arrays: Arrays, name: str, z: str) -> list[str]:
    """The activations of the hidden layers, and at last the output."""
    values, value, k = [], z, 0
    while f"{name}.W{k}" in arrays:
        if k > 0:
            value = _activated(graph, value)
            values.append(value)
        value = graph.add("Gemm", value, graph.array(f"{name}.W{k}"), graph.array(f"{name}.b{k}"), transB=1)
        k += 1
    return [*values, value]


def _potential(graph: _Graph, arrays: Arrays, name: str, z: str) -> tuple[str, str]:
    """Value `(n,)` and gradient `(n, state)`, backwards through the layers: g <- (g * slope) W."""
    *hidden, value = _perceptron(graph, arrays, name, z)
    gradient = graph.array(f"{name}.W{len(hidden)}")
    for k, activation in reversed(list(enumerate(hidden))):
        gradient = graph.add("Mul", gradient, _slope(graph, activation))
        gradient = graph.add("MatMul", gradient, graph.array(f"{name}.W{k}"))
    if not hidden:
        # The same at all states: one row for each of them.
        gradient = graph.add("Add", graph.add("Mul", z, graph.constant("zero", 0)), gradient)
    return graph.add("Squeeze", value, graph.constant("last_axis", [1], np.int64)), gradient


def _nearest(graph: _Graph, z: str) -> tuple[str, str]:
    """The nearest point of the box, and what the distance from it leaves of a bracket: `(n, 1)`."""
    axes = graph.array("box.axes")
    along = graph.add("Gemm", z, axes, transB=1)
    inside = graph.add("Min", graph.add("Max", along, graph.array("box.low")), graph.array("box.high"))
    beyond = graph.add("Sub", along, inside)
    distance = graph.add("Div", beyond, graph.array("box.fading"))
    squares = graph.add(
        "ReduceSum", graph.add("Mul", distance, distance), graph.constant("last_axis", [1], np.int64), keepdims=1
    )
    fading = graph.add("Exp", graph.add("Mul", graph.constant("minus_half", -0.5), graph.add("Mul", squares, squares)))
    return graph.add("Sub", z, graph.add("MatMul", beyond, axes)), fading


def _activated(graph: _Graph, value: str) -> str:
    """The activation by simple operators: runtimes lack Softplus in double precision."""
    if graph.activation == "tanh":
        return graph.add("Tanh", value)
    if graph.activation == "softplus":
        # max(a, 0) + log(1 + exp(-|a|))
        rest = graph.add("Exp", graph.add("Neg", graph.add("Abs", value)))
        return graph.add(
            "Add", graph.add("Relu", value), graph.add("Log", graph.add("Add", graph.constant("one", 1), rest))
        )
    root = graph.add("Sqrt", graph.add("Add", graph.add("Mul", value, value), graph.constant("four", 4)))
    return graph.add("Mul", graph.constant("half", 0.5), graph.add("Add", value, root))


def _slope(graph: _Graph, activation: str) -> str:
    """The derivative of an activation h in terms of h: 1 - h² for tanh, 1 - exp(-h) for softplus, h²/(1 + h²) for
    squareplus."""
    one = graph.constant("one", 1)
    if graph.activation == "softplus":
        return graph.add("Sub", one, graph.add("Exp", graph.add("Neg", activation)))
    square = graph.add("Mul", activation, activation)
    if graph.activation == "tanh":
        return graph.add("Sub", one, square)
    return graph.add("Div", square, graph.add("Add", one, square))


def _bracket(graph: _Graph, arrays: Arrays, name: str, z: str, fading: str, *, annihilated: str, vector: str) -> str:
    r"""$Q^\top (B - B^\top) Q v$ or $Q^\top C C^\top Q v$ with rows $Q_i = A_i g$, faded; $(B - B^\top) v$ without
    them; or a constant matrix times v."""
    if f"{name}.matrix" in arrays:
        return graph.add("Gemm", vector, graph.array(f"{name}.matrix"), transB=1)
    rows = _rows(graph, arrays, name, annihilated) if f"{name}.A" in arrays else None
    n_rows = len(arrays[f"{name}.A"]) if rows else len(arrays["shift"])
    core = _perceptron(graph, arrays, name, z)[-1]
    core = _reshaped(graph, core, f"{name}.core", (-1, n_rows, n_rows))
    transposed = graph.add("Transpose", core, perm=[0, 2, 1])
    axis = graph.constant("column", [2], np.int64)
    column = graph.add("Unsqueeze", vector, axis)
    along = graph.add("MatMul", rows, column) if rows else column
    if name == "poisson":
        weights = graph.add("MatMul", graph.add("Sub", core, transposed), along)
    else:
        weights = graph.add("MatMul", core, graph.add("MatMul", transposed, along))
    product = graph.add("MatMul", graph.add("Transpose", rows, perm=[0, 2, 1]), weights) if rows else weights
    return graph.add("Mul", graph.add("Squeeze", product, axis), fading)


def _rows(graph: _Graph, arrays: Arrays, name: str, annihilated: str) -> str:
    n_rows, n_states, _ = arrays[f"{name}.A"].shape
    generators = graph.constant(f"{name}.generators", arrays[f"{name}.A"].reshape(n_rows * n_states, n_states))
    flat = graph.add("Gemm", annihilated, generators, transB=1)
    return _reshaped(graph, flat, f"{name}.rows", (-1, n_rows, n_states))


def _reshaped(graph: _Graph, value: str, name: str, shape: tuple[int, ...]) -> str:
    return graph.add("Reshape", value, graph.constant(f"{name}_shape", shape, np.int64))
