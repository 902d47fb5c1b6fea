"""What stands in place of a gradient that has been sent and has not come back."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor

from gradsync.errors import InputError

HOW_TO_CLIP = (
    "HINT: to clip or read gradients with any strategy, do it in optimizer.register_step_pre_hook, which sync.step() "
    'calls when they are the mean of all workers; or use strategy="ddp", whose gradients are final after backward.'
)
REFUSAL = (
    "bucketed sends gradients while backward computes them: until sync.step() they are on their way and cannot be "
    "read, clipped, changed, added to or applied. Call sync.step() after each backward, instead of the optimizer's "
    f"step; all but the last piece of a batch go inside sync.accumulating(). {HOW_TO_CLIP}"
)


class OnItsWay(Tensor):
    """A gradient to look at and not to touch: of the parameter's shape, with no memory.

    Whatever is done with it raises: from Python (``__torch_function__``), and from C++ (``__torch_dispatch__``),
    where a second backward adds to it. A plain tensor could be clipped, and nobody would use what comes of it.
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
