"""The built-in models by name, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gradsync.config.plugin import call, is_reference, resolve
from gradsync.errors import InputError, unknown
from gradsync.models.alexnet import alexnet
from gradsync.models.convnet import mnist_cnn
from gradsync.models.gpt import gpt
from gradsync.models.logistic import logistic
from gradsync.models.options import defaults_of, parse_model_options, types_of
from gradsync.models.resnet import resnet18
from gradsync.models.vgg import vgg11

InputShape = tuple[int, ...]
VOCABULARY = 256  # of bytes as tokens


@dataclass(frozen=True)
class Model:
    """How a built-in model is built, and the data it was made for."""

    build: Callable[..., nn.Module]
    """(shape, classes, norm, **options) -> module"""

    shape: InputShape
    classes: int = 10
    any_shape: bool = False
    takes_tokens: bool = False
    """Whether a sample is a sequence of whole numbers, and its shape a window of at most ``context``."""

    sizes: Callable[..., nn.Module] | None = None
    """The function whose keyword arguments are its options."""

    channels_last: tuple[str, ...] = ("fp64", "fp32", "bf16", "fp16")
    """Precisions in which channels-last is the faster layout (benchmarks/memory_format.py)."""


def convolutional(build: Callable[[int, int, str], nn.Module]) -> Callable[[InputShape, int, str], nn.Module]:
    return lambda shape, classes, norm: build(shape[0], classes, norm)


MODELS: dict[str, Model] = {
    "vgg11": Model(convolutional(vgg11), (3, 32, 32)),
    "resnet18": Model(convolutional(resnet18), (3, 32, 32)),
    "alexnet": Model(convolutional(alexnet), (3, 224, 224), classes=1000, channels_last=("bf16", "fp16")),
    "mnist-cnn": Model(convolutional(mnist_cnn), (1, 28, 28)),
    "logistic": Model(lambda shape, classes, norm: logistic(shape, classes), (1, 28, 28), any_shape=True),
    "gpt": Model(
        lambda shape, classes, norm, **options: gpt(classes, **options),
        (defaults_of(gpt)["context"],),
        classes=VOCABULARY,
        takes_tokens=True,
        sizes=gpt,
    ),
}

# What synthetic data looks like for a model we know nothing about.
OWN_MODEL_DATA = ((3, 32, 32), 10)


def find_model(name: str) -> Model:
    if name not in MODELS:
        raise unknown("model", name, MODELS, "Or give your own as package.module:function or path/file.py:function.")
    return MODELS[name]


def option_types(name: str) -> dict[str, Any]:
    """The options of a model, with their types; those of the user's own are the arguments of its function."""
    if is_reference(name):
        return types_of(resolve(name, "model"))
    sizes = find_model(name).sizes
    if sizes is None:
        return {}
    _vocabulary, *options = types_of(sizes).items()
    return dict(options)


def native_data(name: str, options: Mapping[str, str] | None = None) -> tuple[InputShape, int]:
    """Shape and classes of the data a model was made for; for one with the option context, windows of text."""
    given = parse_model_options(name, options or {}, option_types(name))
    if is_reference(name):
        context = given.get("context", defaults_of(resolve(name, "model")).get("context"))
        return ((context,), VOCABULARY) if isinstance(context, int) else OWN_MODEL_DATA
    model = find_model(name)
    return (given.get("context", model.shape[0]),) if model.takes_tokens else model.shape, model.classes


def build(
    name: str,
    *,
    shape: InputShape | None,
    classes: int,
    norm: str = "batch",
    options: Mapping[str, str] | None = None,
    is_tokens: bool = False,
) -> nn.Module:
    """``shape`` of a sample, None if it is no tensor; ``is_tokens``: it is a sequence of whole numbers."""
    given = parse_model_options(name, options or {}, option_types(name))
    if is_reference(name):
        if norm != "batch":
            raise InputError(f"--norm {norm} is for the built-in models: build {name} without BatchNorm yourself.")
        module = call(name, "model", **given)
        if not isinstance(module, nn.Module):
            raise InputError(f"--model {name} returned {type(module).__name__}: it must return a torch.nn.Module.")
        return module
    model = find_model(name)
    if shape is None or is_tokens != model.takes_tokens:
        raise InputError(
            f"{name} takes {'sequences of tokens' if model.takes_tokens else 'images'}, the data has "
            f"{'other inputs' if shape is None else 'sequences of tokens' if is_tokens else by(shape)}. Use --data "
            "synthetic, or a model for this data, such as your own: --model file.py:function."
        )
    if shape != model.shape and not model.any_shape and not model.takes_tokens:
        raise InputError(
            f"{name} takes {by(model.shape)} images, the data has {by(shape)}. "
            f"Use --data synthetic, data of that size, or a model for these images: {', '.join(fitting(shape))}."
        )
    return model.build(shape, classes, norm, **given)


def memory_format(name: str, module: nn.Module, precision: str) -> torch.memory_format:
    """Channels-last for convolutional models where it is faster."""
    faster = is_reference(name) or precision in find_model(name).channels_last
    if faster and any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return torch.channels_last
    return torch.contiguous_format


def fitting(shape: InputShape) -> list[str]:
    return [
        name for name, model in MODELS.items() if model.any_shape or (model.shape == shape and not model.takes_tokens)
    ]


def by(shape: InputShape) -> str:
    return "×".join(map(str, shape))


def by_share(module: nn.Module, sync_bn: bool) -> list[str]:
    """What the model computes differently when a batch is split: N workers then differ from one, by design."""
    found = []
    if not sync_bn and any(isinstance(part, _BatchNorm) for part in module.modules()):
        found.append("BatchNorm normalizes each worker's share by itself (--sync-bn, --norm none)")
    if any(drops(part) for part in module.modules()):
        found.append("dropout draws differ between workers")
    return found


def drops(part: nn.Module) -> bool:
    """Dropout layers have a p; attention and recurrent layers a number named dropout."""
    rate = part.p if isinstance(part, _DropoutNd) else getattr(part, "dropout", 0.0)
    return isinstance(rate, (int, float)) and rate > 0


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
