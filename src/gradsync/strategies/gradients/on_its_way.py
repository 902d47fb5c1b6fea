"""The placeholder for a gradient whose all-reduce has not finished."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor

from gradsync.errors import InputError

HOW_TO_CLIP = (
    "HINT: to clip or read gradients with any strategy, call sync.agree(), after which they are the mean over all "
    "workers; clip; call sync.update(). Or sync.step(clip_norm=1.0). With a GradScaler: sync.step(scaler)."
)
REFUSAL = (
    "bucketed sends gradients while backward computes them: until sync.step() they are in flight and cannot be "
    "read, clipped, changed, added to or applied. Call sync.step() after each backward, instead of the optimizer's "
    f"step; put all but the last micro-batch inside sync.accumulating(). {HOW_TO_CLIP}"
)


class OnItsWay(Tensor):
    """A tensor of the parameter's shape without memory, on which every operation raises.

    Operations from Python raise in ``__torch_function__``; those from C++, where a second backward would add to it,
    in ``__torch_dispatch__``. A plain tensor could be clipped without an error and without an effect.
    """

    @staticmethod
    def __new__(cls, parameter: Tensor) -> OnItsWay:
        shape, strides = parameter.shape, parameter.stride()
        kind: dict[str, Any] = {"dtype": parameter.dtype, "device": parameter.device}
        return Tensor._make_wrapper_subclass(cls, shape, strides, **kind)

    @classmethod
    def _refuse(cls, *_: Any, **__: Any) -> NoReturn:
        raise InputError(REFUSAL)

    __torch_function__ = __torch_dispatch__ = _refuse
