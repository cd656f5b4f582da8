"""Training from slot text, against the dense network alone and a loop by hand on FBGEMM."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from benchmarks import fbgemm
from benchmarks.dense import DenseBound, OwnNetwork, plain_network
from benchmarks.figure import Figure, ratios
from benchmarks.job import HIDDEN, dnn_phase, train_part
from benchmarks.speed import Apart, Speed, Train, speed
from fleetrec.config.job import MatmulPrecision
from fleetrec.nn.linear import set_matmul_precision
from fleetrec.train.phase import Phase

TARGET = 0.85
FBGEMM_TARGET = 1.2
LESS_EXACT: tuple[MatmulPrecision, ...] = ("high", "medium")


def measure(
    parts: Sequence[Path],
    *,
    batch_size: int,
    num_rounds: int,
    hidden: Sequence[int] = HIDDEN,
    say: Callable[[str], None] = print,
) -> list[Figure]:
    """Warm up on the first part, then train on one part per round, the others beside it."""
    assert num_rounds < len(parts), f"{num_rounds} rounds need {num_rounds + 1} parts"
    phase = dnn_phase(parts[0].parent, batch_size=batch_size, hidden=hidden)
    with parts[0].open("rb") as stream:
        num_steps = max(1, sum(1 for _ in stream) // batch_size)
    contenders: dict[str, Callable[[Path], Speed]] = {
        "ours": functools.partial(speed, functools.partial(train_part, phase)),
        **{name: _with_products(phase, name) for name in LESS_EXACT},
        "bound": _bound(plain_network(hidden), batch_size, num_steps),
        "own bound": _bound(OwnNetwork(hidden), batch_size, num_steps),
    }
    with contextlib.ExitStack() as stack:
        if fbgemm.is_installed():
            make = functools.partial(
                _fbgemm_loop, tuple(hidden), batch_size, num_threads=torch.get_num_threads()
            )
            contenders["fbgemm"] = stack.enter_context(Apart(make)).speed
        else:
            say(f"dnn: FBGEMM is not installed, so its loop is left out; {fbgemm.INSTALL}")
        speeds: dict[str, list[Speed]] = {name: [] for name in contenders}
        for part in parts[: num_rounds + 1]:
            for name, run in contenders.items():
                speeds[name].append(run(part))
    return _figures({name: found[1:] for name, found in speeds.items()})


def _with_products(phase: Phase, precision: MatmulPrecision) -> Callable[[Path], Speed]:
    def train(part: Path) -> int:
        set_matmul_precision(phase.model, precision)
        try:
            return train_part(phase, part)
        finally:
            set_matmul_precision(phase.model, "highest")

    return functools.partial(speed, train)


def _bound(network: nn.Module, batch_size: int, num_steps: int) -> Callable[[Path], Speed]:
    bound = DenseBound(network, batch_size=batch_size)
    return functools.partial(speed, lambda _: bound.run(num_steps=num_steps))


def _fbgemm_loop(hidden: tuple[int, ...], batch_size: int, *, num_threads: int) -> Train:
    torch.set_num_threads(num_threads)
    loop = fbgemm.FbgemmLoop(hidden=hidden)
    return functools.partial(loop.train_part, batch_size=batch_size)


def _figures(speeds: Mapping[str, Sequence[Speed]]) -> list[Figure]:
    wall = {name: [speed.wall for speed in found] for name, found in speeds.items()}
    cpu = {name: [speed.cpu for speed in found] for name, found in speeds.items()}
    figures = [
        Figure(name="dnn: dense network alone", values=wall["bound"], unit="rows/s"),
        Figure(
            name="dnn: end to end",
            values=wall["ours"],
            unit="rows/s",
            ratios=ratios(wall["ours"], wall["bound"]),
            target=TARGET,
        ),
        Figure(
            name="dnn: end to end over our own network alone",
            values=wall["ours"],
            unit="rows/s",
            ratios=ratios(wall["ours"], wall["own bound"]),
        ),
        Figure(
            name="dnn: end to end",
            values=cpu["ours"],
            unit="rows/CPU s",
            ratios=ratios(cpu["ours"], cpu["bound"]),
        ),
    ]
    figures += [
        Figure(
            name=f"dnn: end to end, matmul_precision {precision}",
            values=wall[precision],
            unit="rows/s",
            ratios=ratios(wall[precision], wall["bound"]),
        )
        for precision in LESS_EXACT
    ]
    if "fbgemm" in wall:
        figures += [
            Figure(name="dnn: loop by hand on FBGEMM", values=wall["fbgemm"], unit="rows/s"),
            Figure(
                name="dnn: end to end over FBGEMM",
                values=wall["ours"],
                unit="rows/s",
                ratios=ratios(wall["ours"], wall["fbgemm"]),
                target=FBGEMM_TARGET,
            ),
            Figure(
                name="dnn: end to end over FBGEMM",
                values=cpu["ours"],
                unit="rows/CPU s",
                ratios=ratios(cpu["ours"], cpu["fbgemm"]),
            ),
        ]
    return figures
