"""Time one full-batch training step of a weak-form GFINN (two gas containers) in compiled PyTorch.

The step is the one a JAX training of the same model takes, written as a careful PyTorch user would
write it, so that the two can be compared honestly. 80 trajectories of 401 times and 4 states; energy net
4-20-20-20-1 (tanh), affine entropy, two 4-20-20-20-16 nets and two sets of four skew matrices for the
Poisson and the friction operator (3,646 parameters); 25 test functions (support 80, degree 4, overlap
0.9); State-RBA weights (0.005, 0.995); AdamW (learning rate 1e-3, no weight decay); single precision.
The data are synthetic: only their shape and scale matter here.

A variant is named ``driver:mode:layout:nets:gradient``:

driver    ``eager``  autograd and fused AdamW, nothing compiled;
          ``loss``   compiled loss, its backward through AOTAutograd, fused AdamW;
          ``step``   loss, gradient (torch.func) and AdamW in one compiled function;
          ``graph``  ``step`` captured in a CUDA graph (CUDA only).
mode      torch.compile's mode: ``default``, ``max-autotune-no-cudagraphs``, ``reduce-overhead``, ...,
          or ``tuned``: the default one with the options in TUNED (CPU only);
layout    ``cols``: points along the last, contiguous axis (features x points); ``rows``: points x features;
          a number after it: the points in so many chunks, one more batch axis, so that the long sums over
          points in the weights' gradients run side by side (``cols80``; for GPUs);
nets      ``split``: a product for each of the three nets, batched over the members;
          ``stacked``: the hidden layers of the three nets in one batched product as well;
          ``vmap``: as split, the members by torch.func.vmap; ``loop``: as split, the members unrolled;
gradient  ``hand``: the energy gradient by explicit formulas; ``func``: by a nested torch.func.grad.

    python benchmarks/torch_step.py --members 1 --steps 50 --repeats 5 --device cpu --threads 2 [--json]

Before a variant is timed, its gradient is compared with double-precision autograd of the plain formulation
(operators formed as matrices, energy gradient by ``create_graph``), its attention weights with the formula
and its update with ``torch.optim.AdamW``. Neither that nor compilation is in the timings.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

TRAJECTORIES, TIMES, STATES, WIDTH = 80, 401, 4, 20
POINTS = TRAJECTORIES * TIMES
TIME_STEP = 0.01
SUPPORT, DEGREE, OVERLAP = 80, 4, 0.9
RBA_RATE, RBA_DECAY = 0.005, 0.995
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
PARAMETERS = 3646
ENERGY, POISSON, FRICTION = 0, 1, 2  # order of the three nets in the stacked weights

# Shapes of one member's parameters. Biases carry a trailing 1, so that they broadcast over points.
SHAPES: dict[str, tuple[int, ...]] = {
    "w1": (3, WIDTH, STATES),
    "b1": (3, WIDTH, 1),
    "w2": (3, WIDTH, WIDTH),
    "b2": (3, WIDTH, 1),
    "w3": (3, WIDTH, WIDTH),
    "b3": (3, WIDTH, 1),
    "energy_w": (WIDTH, 1),
    "energy_b": (1,),  # shifts the energy only: never gets a gradient
    "operator_w": (2, STATES * STATES, WIDTH),
    "operator_b": (2, STATES * STATES, 1),
    "entropy_w": (STATES, 1),
    "entropy_b": (1,),  # likewise
    "xi": (2, STATES, STATES, STATES),
}

# tanh by one exponential instead of the slower library routine; fused multiply-adds.
TUNED = {"cpp.use_decompose_tanh": True, "cpp.enable_floating_point_contract_flag": "fast"}

Params = dict[str, Tensor]


class Variant(NamedTuple):
    """What is compiled, and how the model is laid out (see the module's docstring)."""

    driver: str
    mode: str
    layout: str
    nets: str
    gradient: str

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read ``driver:mode:layout:nets:gradient``; parts left out at the end take the usual values."""
        usual = ("step", "default", "cols", "split", "hand")
        parts = text.split(":")
        return cls(*parts, *usual[len(parts) :])

    def __str__(self) -> str:
        return ":".join(self)


@dataclass
class Problem:
    """The fixed tensors of the loss."""

    states: Tensor  # (states, points)
    phi: Tensor  # (times, tests): quadrature weight times test function
    offset: Tensor  # (states, trajectories, tests): the part of the residual without the model
    weight: Tensor  # (states, 1): 1 / standard deviation


@dataclass
class State:
    """What a step changes, in place."""

    theta: Tensor  # all parameters of all members, flat
    mean: Tensor
    square: Tensor
    count: Tensor
    attention: Tensor  # (members, states, 1), or (states, 1) for one member


# ---------------------------------------------------------------------------------------------- problem


def test_functions() -> tuple[np.ndarray, np.ndarray]:
    """Test functions and their derivatives at the times, times the time step: two (times, tests) arrays."""
    overlap = math.floor(SUPPORT * (1 - math.sqrt(1 - OVERLAP ** (1 / DEGREE))))
    stride = SUPPORT - overlap
    tests = 1 + (TIMES - SUPPORT) // stride
    tau = np.linspace(-1, 1, SUPPORT)
    value = (1 - tau**2) ** DEGREE
    slope = -2 * DEGREE * tau * (1 - tau**2) ** (DEGREE - 1) * 2 / ((SUPPORT - 1) * TIME_STEP)
    phi, phi_dot = np.zeros((2, TIMES, tests))
    for j in range(tests):
        window = slice(j * stride, j * stride + SUPPORT)
        phi[window, j], phi_dot[window, j] = TIME_STEP * value, TIME_STEP * slope
    return phi, phi_dot


def make_problem(device: str, dtype: torch.dtype, seed: int = 0) -> Problem:
    """Smooth random trajectories with about the gas containers' means, spreads and 5% noise."""
    rng = np.random.default_rng(seed)
    times = TIME_STEP * np.arange(TIMES)
    centre = np.array([1.0, 0.0, 2.0, 2.0])[:, None, None]
    spread = np.array([0.26, 1.05, 0.44, 0.42])[:, None, None]
    rate, phase = rng.uniform([[[[1.0]]], [[[0.0]]]], [[[[4.0]]], [[[6.3]]]], (2, STATES, TRAJECTORIES, 1))
    clean = np.sqrt(2) * np.sin(rate * times + phase)
    data = centre + spread * (clean + 0.05 * rng.standard_normal(clean.shape))
    phi, phi_dot = test_functions()
    return Problem(
        *(
            torch.tensor(a, dtype=dtype, device=device)
            for a in (
                data.reshape(STATES, POINTS),
                phi,
                data @ phi_dot,
                1 / data.std((1, 2))[:, None],
            )
        )
    )


def sizes(members: int) -> list[int]:
    """Length of each parameter's block in the flat vector."""
    return [members * math.prod(shape) for shape in SHAPES.values()]


def unpack(theta: Tensor, members: int) -> Params:
    """Named views into the flat vector, with a leading member axis if there are several members."""
    lead = () if members == 1 else (members,)
    blocks = theta.split(sizes(members))
    return {name: b.view(*lead, *shape) for b, (name, shape) in zip(blocks, SHAPES.items(), strict=True)}


def make_theta(members: int, device: str, seed: int = 1) -> Tensor:
    """Xavier-uniform weights, small random biases (so that the check sees them), normal skew matrices."""
    generator = torch.Generator().manual_seed(seed)
    blocks = []
    for name, shape in SHAPES.items():
        draw = torch.randn(members, *shape, generator=generator)
        if name == "xi":
            blocks.append(0.3 * draw)
        elif name[0] == "b" or name.endswith("_b"):
            blocks.append(0.1 * draw)
        else:
            blocks.append(draw * math.sqrt(2 / (shape[-1] + shape[-2])))
    return torch.cat([b.flatten() for b in blocks]).to(device)


# ------------------------------------------------------------------------------------------------ model


def skew(xi: Tensor) -> Tensor:
    """Skew-symmetric matrices from the strictly upper parts."""
    upper = torch.triu(xi, 1)
    return upper - upper.mT


class Layout:
    """The model's products and sums, for one order of the feature, point and chunk axes."""

    def __init__(self, name: str):
        self.rows = name.startswith("rows")
        self.chunks = int(name[4:] or 0)
        self.axis = -1 if self.rows else -2  # the feature axis
        self.net_axis = -4 if self.chunks else -3  # in activations of stacked nets

    def states(self, states: Tensor) -> Tensor:
        """The data, (states, points), in this layout."""
        if self.chunks:
            states = states.unflatten(-1, (self.chunks, -1)).movedim(-2, -3)
        return (states.mT if self.rows else states).contiguous()

    def undo(self, f: Tensor) -> Tensor:
        """A field in this layout as (..., states, points)."""
        f = f.mT if self.rows else f
        return f.movedim(-3, -2).flatten(-2) if self.chunks else f

    def shared(self, w: Tensor) -> Tensor:
        """A weight with an axis for the chunks, which all share it."""
        return w.unsqueeze(-3) if self.chunks else w

    def bias(self, b: Tensor) -> Tensor:
        return self.shared(b.mT if self.rows else b)

    def apply(self, w: Tensor, h: Tensor) -> Tensor:
        """The matrix w applied to the features of every point."""
        return h @ self.shared(w.mT) if self.rows else self.shared(w) @ h

    def affine(self, w: Tensor, b: Tensor, h: Tensor) -> Tensor:
        """w h + b. A difference, since a sum would become an addmm, which first copies b to every point."""
        return self.apply(w, h) - self.bias(-b)

    def matrix(self, entries: Tensor) -> Tensor:
        """Split a feature axis of 16 into 4 x 4."""
        return entries.unflatten(self.axis, (STATES, STATES))

    def right(self, a: Tensor, v: Tensor) -> Tensor:
        """A v, pointwise."""
        return (a * v.unsqueeze(self.axis - 1)).sum(self.axis)

    def left(self, a: Tensor, v: Tensor) -> Tensor:
        """A^T v, pointwise."""
        return (a * v.unsqueeze(self.axis)).sum(self.axis - 1)


def split_hidden(at: Layout, p: Params, x: Tensor) -> list[list[Tensor]]:
    """Activations of the three hidden layers of each of the three nets, one product per net and layer."""
    nets = []
    for net in (ENERGY, POISSON, FRICTION):
        h, layers = x, []
        for k in "123":
            h = torch.tanh(at.affine(p["w" + k][..., net, :, :], p["b" + k][..., net, :, :], h))
            layers.append(h)
        nets.append(layers)
    return nets


def stacked_hidden(at: Layout, p: Params, x: Tensor) -> list[list[Tensor]]:
    """The same activations with the nets side by side in one batched product per layer."""
    h, layers = x, []
    for k in "123":
        h = torch.tanh(at.affine(p["w" + k], p["b" + k], h))
        layers.append(h.unbind(at.net_axis))
    return [list(net) for net in zip(*layers, strict=True)]


def hand_gradient(at: Layout, p: Params, layers: list[Tensor]) -> Tensor:
    """Energy gradient at every point: the backward pass of the net, written as forward code."""
    w1, w2, w3 = (p[k][..., ENERGY, :, :] for k in ("w1", "w2", "w3"))
    h1, h2, h3 = layers
    delta = at.bias(p["energy_w"]) * (1 - h3 * h3)
    delta = at.apply(w3.mT, delta) * (1 - h2 * h2)
    delta = at.apply(w2.mT, delta) * (1 - h1 * h1)
    return at.apply(w1.mT, delta)


def func_gradient(at: Layout, p: Params, x: Tensor) -> Tensor:
    """Energy gradient at every point by a nested torch.func.grad."""

    def total(x: Tensor) -> Tensor:
        h = x
        for k in "123":
            h = torch.tanh(at.affine(p["w" + k][..., ENERGY, :, :], p["b" + k][..., ENERGY, :, :], h))
        return at.apply(p["energy_w"].mT, h).sum()

    members = p["energy_w"].shape[:-2]
    return torch.func.grad(total)(x.expand(*members, *x.shape))


def field(at: Layout, variant: Variant, p: Params, x: Tensor) -> Tensor:
    """Right-hand side at every point, by acting with the operators and never forming them."""
    hidden = (stacked_hidden if variant.nets == "stacked" else split_hidden)(at, p, x)
    g = hand_gradient(at, p, hidden[ENERGY]) if variant.gradient == "hand" else func_gradient(at, p, x)
    w, b = p["operator_w"], p["operator_b"]
    a_poisson = at.matrix(at.affine(w[..., 0, :, :], b[..., 0, :, :], hidden[POISSON][2]))
    a_friction = at.matrix(at.affine(w[..., 1, :, :], b[..., 1, :, :], hidden[FRICTION][2]))

    xi = skew(p["xi"])
    rows = (xi @ p["entropy_w"].unsqueeze(-3).unsqueeze(-3)).squeeze(-1)  # xi_i grad S: constant
    q_poisson, q_friction = rows[..., 0, :, :], rows[..., 1, :, :]
    v = at.apply(q_poisson, g)
    reversible = at.apply(q_poisson.mT, at.right(a_poisson, v) - at.left(a_poisson, v))
    u = at.right(a_friction, at.left(a_friction, -at.apply(q_friction, g)))
    combined = at.matrix(at.apply(xi[..., 1, :, :, :].flatten(-2).mT, u))  # sum_i u_i xi_i
    return reversible + at.right(combined, g)


def weak_loss(
    variant: Variant, problem: Problem, x: Tensor, p: Params, attention: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Sum of the members' losses; beside it each member's loss and the new attention weights."""
    at = Layout(variant.layout)
    f = at.undo(field(at, variant, p, x)).unflatten(-1, (TRAJECTORIES, TIMES))
    residual = (problem.offset + f @ problem.phi).flatten(-2)
    size = problem.weight.sqrt() * residual.detach().abs().mean(-1, keepdim=True)
    attention = RBA_DECAY * attention + RBA_RATE * size / size.amax(-2, keepdim=True)
    losses = (attention * problem.weight * residual.square().mean(-1, keepdim=True)).mean((-2, -1))
    return losses.sum(), (losses.detach(), attention)


def make_loss(variant: Variant, problem: Problem, members: int) -> Callable:
    """The loss as a function of the named parameters and the attention weights."""
    x = Layout(variant.layout).states(problem.states)

    def loss(p: Params, attention: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return weak_loss(variant, problem, x, p, attention)

    def mapped(p: Params, attention: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        total, aux = torch.func.vmap(loss)(p, attention)
        return total.sum(), aux

    def unrolled(p: Params, attention: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        parts = [loss({k: v[m] for k, v in p.items()}, attention[m]) for m in range(members)]
        losses, weights = zip(*(aux for _, aux in parts), strict=True)
        return sum(total for total, _ in parts), (torch.stack(losses), torch.stack(weights))

    return loss if members == 1 else {"vmap": mapped, "loop": unrolled}.get(variant.nets, loss)


# ---------------------------------------------------------------------------------------------- drivers


def make_state(members: int, device: str) -> State:
    """Start of a training. The count is a tensor: a number would be baked into compiled code."""
    theta = make_theta(members, device)
    attention = torch.ones((STATES, 1) if members == 1 else (members, STATES, 1), device=device)
    zeros = torch.zeros_like(theta)
    return State(theta, zeros, zeros.clone(), torch.zeros((), device=device), attention)


def flat_step(loss: Callable, members: int) -> Callable:
    """Loss, gradient and AdamW (without decay) on the flat vector, changing its tensors in place."""
    gradient = torch.func.grad_and_value(loss, has_aux=True)

    def step(theta: Tensor, mean: Tensor, square: Tensor, count: Tensor, attention: Tensor):
        grads, (_, (losses, new_attention)) = gradient(unpack(theta, members), attention)
        grad = torch.cat([grads[name].flatten() for name in SHAPES])
        attention.copy_(new_attention)
        count.add_(1)
        mean.lerp_(grad, 1 - BETA1)
        square.mul_(BETA2).add_((1 - BETA2) * grad * grad)
        rate = LEARNING_RATE / (1 - BETA1**count)
        theta.sub_(rate * mean / ((square / (1 - BETA2**count)).sqrt() + EPSILON))
        return losses, grad

    return step


def optimiser(params: list[Tensor], fused: bool) -> torch.optim.AdamW:
    """AdamW as the training has it."""
    return torch.optim.AdamW(params, lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=0.0, fused=fused)


def compiled(variant: Variant, function: Callable) -> Callable:
    """The function compiled in the variant's mode."""
    how = {"options": TUNED} if variant.mode == "tuned" else {"mode": variant.mode}
    return torch.compile(function, fullgraph=True, **how)


def autograd_runner(variant: Variant, loss: Callable, state: State, members: int) -> Callable:
    """The usual training loop: (compiled) loss, backward, fused AdamW, on views of the flat vector."""
    p = {name: v.detach().requires_grad_() for name, v in unpack(state.theta, members).items()}
    adam = optimiser(list(p.values()), fused=True)
    call = loss if variant.driver == "eager" else compiled(variant, loss)

    def run() -> Tensor:
        total, (losses, attention) = call(p, state.attention)
        adam.zero_grad(set_to_none=True)
        total.backward()
        adam.step()
        state.attention.copy_(attention)
        return losses

    def gradient() -> Tensor:
        return torch.cat([(torch.zeros_like(v) if v.grad is None else v.grad).flatten() for v in p.values()])

    run.gradient = gradient
    return run


def compiled_runner(variant: Variant, loss: Callable, state: State, members: int) -> Callable:
    """The whole step as one compiled function; with ``graph`` replayed as one CUDA graph."""
    tensors = (state.theta, state.mean, state.square, state.count, state.attention)
    for t in tensors:
        torch._dynamo.mark_static_address(t)
    call = compiled(variant, flat_step(loss, members))
    latest: list[Tensor] = []

    def run() -> Tensor:
        latest[:] = call(*tensors)
        return latest[0]

    run.gradient = lambda: latest[1].clone()
    if variant.driver == "step":
        return run
    return captured(run, tensors)


def captured(run: Callable, tensors: tuple[Tensor, ...]) -> Callable:
    """The run as one CUDA graph, the tensors back as they were before the capture."""
    saved = [t.clone() for t in tensors]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = run()
    for t, s in zip(tensors, saved, strict=True):
        t.copy_(s)

    def replay() -> Tensor:
        graph.replay()
        return losses

    replay.gradient = run.gradient
    replay.source = run  # keeps alive the tensors whose addresses the graph holds
    return replay


def make_runner(variant: Variant, problem: Problem, state: State, members: int) -> Callable:
    """A function that takes one step; its attribute ``gradient`` gives that step's gradient, flat."""
    torch.compiler.reset()
    loss = make_loss(variant, problem, members)
    build = autograd_runner if variant.driver in ("eager", "loss") else compiled_runner
    return build(variant, loss, state, members)


# ------------------------------------------------------------------------------------------------ check


def plain_loss(problem: Problem, p: Params, attention: Tensor) -> tuple[Tensor, Tensor]:
    """One member's loss and new attention by the definition, the operators formed as matrices."""
    x = problem.states.T.clone().requires_grad_()

    def net(index: int) -> Tensor:
        h = x
        for k in "123":
            h = torch.tanh(h @ p["w" + k][index].T + p["b" + k][index].T)
        return h

    energy = net(ENERGY) @ p["energy_w"] + p["energy_b"]
    entropy = x @ p["entropy_w"] + p["entropy_b"]
    grad_e, grad_s = (torch.autograd.grad(s.sum(), x, create_graph=True)[0] for s in (energy, entropy))
    xi = skew(p["xi"])
    a, d = (
        (net(n) @ p["operator_w"][n - 1].T + p["operator_b"][n - 1].T).unflatten(-1, (STATES, STATES))
        for n in (POISSON, FRICTION)
    )
    q_s = torch.einsum("iab,nb->nia", xi[0], grad_s)
    q_e = torch.einsum("iab,nb->nia", xi[1], grad_e)
    poisson = q_s.mT @ (a - a.mT) @ q_s
    friction = q_e.mT @ d @ d.mT @ q_e
    f = (poisson @ grad_e[..., None] + friction @ grad_s[..., None]).squeeze(-1)
    residual = problem.offset + torch.einsum("btd,tj->dbj", f.view(TRAJECTORIES, TIMES, STATES), problem.phi)
    weight = problem.weight[:, 0]
    size = weight.sqrt() * residual.detach().abs().mean((1, 2))
    attention = RBA_DECAY * attention[:, 0] + RBA_RATE * size / size.max()
    loss = ((attention * weight)[:, None, None] * residual.square()).mean()
    return loss, attention[:, None]


def plain_gradient(problem: Problem, theta: Tensor, attention: Tensor, members: int) -> tuple[Tensor, Tensor]:
    """Gradient of the sum of the members' plain losses, flat, and the new attention weights."""
    theta = theta.detach().double().requires_grad_()
    blocks = theta.split(sizes(members))
    stacked = {k: b.view(members, *s) for b, (k, s) in zip(blocks, SHAPES.items(), strict=True)}
    attention = attention.double().view(members, STATES, 1)
    results = [plain_loss(problem, {k: v[m] for k, v in stacked.items()}, attention[m]) for m in range(members)]
    gradient = torch.autograd.grad(sum(loss for loss, _ in results), theta)[0]
    return gradient, torch.stack([new for _, new in results])


def relative(value: Tensor, reference: Tensor) -> float:
    """Relative l2 distance."""
    return float((value.double().flatten() - reference.flatten()).norm() / reference.norm())


def check(run: Callable, state: State, exact: Problem, members: int, tolerance: float) -> float:
    """Take three steps and compare each with the reference; the gradient's largest relative error."""
    shadow = state.theta.double().requires_grad_()
    adam = optimiser([shadow], fused=False)
    worst = 0.0
    for _ in range(3):
        gradient, attention = plain_gradient(exact, state.theta, state.attention, members)
        run()
        shadow.grad = run.gradient().double()
        adam.step()
        errors = {
            "gradient": relative(shadow.grad, gradient),
            "attention": relative(state.attention, attention),
            "update": relative(state.theta, shadow.detach()),
        }
        if not max(errors.values()) < tolerance:
            raise RuntimeError(f"step differs from the double-precision reference: {errors}")
        worst = max(worst, errors["gradient"])
    return worst


# --------------------------------------------------------------------------------------------- timing


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def time_steps(run: Callable, steps: int, repeats: int, device: str) -> list[float]:
    """Milliseconds per step in each repeat, after a warm-up."""
    for _ in range(max(3, steps // 5)):
        run()
    samples = []
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(steps):
            run()
        synchronise(device)
        samples.append(1e3 * (time.perf_counter() - start) / steps)
    return samples


def measure(variant: Variant, args: argparse.Namespace) -> dict:
    """Build, check and time one variant."""
    problem = make_problem(args.device, torch.float32)
    exact = make_problem(args.device, torch.float64)
    state = make_state(args.members, args.device)
    start = time.perf_counter()
    run = make_runner(variant, problem, state, args.members)
    error = check(run, state, exact, args.members, tolerance=2e-2 if args.tf32 else 1e-4)
    setup = time.perf_counter() - start
    samples = time_steps(run, args.steps, args.repeats, args.device)
    return {
        "variant": str(variant),
        "ms_per_step": statistics.median(samples),
        "ms_min": min(samples),
        "ms_max": max(samples),
        "gradient_error": error,
        "setup_s": setup,
    }


CPU_VARIANTS = (
    "eager:-:cols:split",
    "loss:tuned:cols:split",
    "step:default:cols:split",
    "step:tuned:cols:split",
    "step:tuned:rows:split",
    "step:tuned:cols:split:func",
)
# The chunked layouts matter most for ensembles: a batched product over all points at once is slow there.
# With one member, cols80:stacked has failed the check in a CUDA graph (torch 2.11) and is then not timed.
CUDA_VARIANTS = (
    "eager:-:cols:split",
    "loss:reduce-overhead:cols:split",
    "step:reduce-overhead:cols:split",
    "graph:default:cols:split",
    "graph:default:rows:split",
    "graph:default:rows80:stacked",
    "graph:default:cols80:stacked",
)
ENSEMBLE_VARIANTS = {"cpu": ("step:tuned:cols:vmap",), "cuda": ("graph:default:cols:loop",)}


def default_variants(device: str, members: int) -> tuple[str, ...]:
    """The variants worth trying on a device."""
    kind = "cuda" if device.startswith("cuda") else "cpu"
    names = CUDA_VARIANTS if kind == "cuda" else CPU_VARIANTS
    return names if members == 1 else names + ENSEMBLE_VARIANTS[kind]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1, help="members of the ensemble trained at once")
    parser.add_argument("--steps", type=int, default=50, help="steps per repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--tf32", action="store_true", help="CUDA: allow TF32 matrix products")
    parser.add_argument("--variants", nargs="+", help="variants to try (default: a list per device)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Measure the variants and print them."""
    args = arguments(argv)
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    assert sum(sizes(1)) == PARAMETERS
    names = args.variants or default_variants(args.device, args.members)
    results = []
    for name in names:
        try:
            results.append(measure(Variant.parse(name), args))
        except Exception as error:
            results.append({"variant": name, "error": f"{type(error).__name__}: {error}".splitlines()[0]})
        if not args.json:
            print_result(results[-1])
    timed = [r for r in results if "error" not in r]
    best = min(timed, key=lambda r: r["ms_per_step"], default=None)
    if args.json:
        settings = {k: getattr(args, k) for k in ("members", "steps", "repeats", "device", "threads", "tf32")}
        report = {"torch": torch.__version__, **settings, "best": best, "variants": results}
        print(json.dumps(report, indent=2))
    elif best:
        print(f"fastest: {best['variant']}  {best['ms_per_step']:.3f} ms per step")
    if not timed:
        sys.exit(1)


def print_result(result: dict) -> None:
    """One line for one variant."""
    if "error" in result:
        print(f"{result['variant']:<50} failed: {result['error']}", flush=True)
        return
    median, low, high = (result[k] for k in ("ms_per_step", "ms_min", "ms_max"))
    print(
        f"{result['variant']:<50} {median:9.3f} ms  [{low:.3f}, {high:.3f}]"
        f"  gradient error {result['gradient_error']:.1e}  set-up {result['setup_s']:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
