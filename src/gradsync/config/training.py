"""What is trained, on what, and how: one field per setting. Where, and by how many, is said elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradsync.config.injection import parse_injection
from gradsync.errors import InputError
from gradsync.values import flag, shown

Buffers = Literal["local", "broadcast", "average"]

# Two ways to say one thing: a flag for one replaces what a file says about the other.
ALTERNATIVES = [("batch_size", "batch_per_worker"), ("epochs", "steps")]


@dataclass(kw_only=True)
class Training:
    """What is trained, on what, and how."""

    model: str = "vgg11"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, or your own as package.module:function or file.py:function."""

    norm: Literal["batch", "none"] = "batch"
    """none takes BatchNorm out of the built-in models."""

    sync_bn: bool = False
    """BatchNorm statistics over the global batch instead of each worker's share."""

    data: str = "synthetic"
    """synthetic, cifar10, mnist, or your own as package.module:function (returns train and test Datasets)."""

    train_samples: int | None = None
    """Train on the first so many samples. Default: all; synthetic makes 2,560 (fewer of large images)."""

    test_samples: int | None = None
    """Test on the first so many samples. Default: all; synthetic makes 512."""

    augment: bool = True
    """Random crops and flips in training, where the data set has them (cifar10)."""

    loader_processes: int = 0
    """Loader processes per worker for your own Datasets; the built-in sets need none."""

    batch_size: int | None = None
    """Samples per step over all workers, split evenly. Default: 64."""

    batch_per_worker: int | None = None
    """Samples per step and worker, instead of --batch-size."""

    epochs: int | None = None
    """Passes over the training data. Default: 1."""

    steps: int | None = None
    """Stop after so many steps, instead of --epochs."""

    accumulate: int = 1
    """Compute each worker's share in so many pieces, one after another: large batches on little memory."""

    optimizer: Literal["sgd", "adam", "lars"] = "sgd"
    """Which update rule. lars: sgd with a step per layer that fits the size of its parameters."""

    lr: float | None = None
    """Learning rate. Default: 0.01 for sgd, 0.001 for adam, 1 for lars."""

    lr_scaling: Literal["none", "linear", "sqrt"] | None = None
    """Times the number of workers, or its root. Default: none; linear for --batch-per-worker above 1,024 in all."""

    warmup_epochs: float | None = None
    """Epochs in which the learning rate grows to its full size. Default: none; where it is scaled and the batch is
    above 1,024, 5 epochs, but at most a quarter of the run."""

    schedule: Literal["constant", "cosine", "step"] = "constant"
    """What becomes of the learning rate after that: cosine goes down to 0, step falls at each of --decay-epochs."""

    decay_epochs: tuple[int, ...] = (30, 60, 80)
    """With --schedule step: after which epochs it falls to a tenth."""

    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes in training, for instance 0.1."""

    momentum: float = 0.9
    """Momentum of sgd and lars."""

    weight_decay: float | None = None
    """L2 penalty. Default: 1e-4 for sgd and lars, 0 for adam."""

    reshuffle: bool = True
    """Another order of the samples in every epoch; without it, the same one each time."""

    start: Literal["same", "own"] = "same"
    """own: every worker keeps the parameters it drew itself instead of getting rank 0's. To see what that does."""

    seed: int = 0
    """Decides parameters, shuffles and augmentation."""

    precision: Literal["fp64", "fp32", "bf16"] = "fp32"
    """bf16 is autocast over float32 parameters."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes a GPU where there is one."""

    threads: int | None = None
    """Compute threads per worker. Default: cores ÷ workers, at least 1."""

    buffers: Buffers | None = None
    """BatchNorm statistics: each worker its own, rank 0's for all, or the average. Default: the strategy's."""

    eval: bool = True
    """Test after every epoch and at the end."""

    train_accuracy: bool = False
    """Also count how many samples of each training batch are recognised."""

    log_every: int = 20
    """Steps between two lines of output when it is not a terminal."""

    keep_going: bool = False
    """Train on when the loss is not a number."""

    measure: bool = True
    """Stamp phases and collectives, count bytes, sample the host. Without it only the time per step is known."""

    inject: str | None = None
    """Make a rank slow: rank=2,where=data|forward|backward|link,ms=200 (link: each of its messages leaves late)."""

    tensorboard: bool = False
    """Write event files for TensorBoard into the run folder while it trains."""

    save_model: bool = False
    """Keep the trained parameters and buffers as model.pt in the run folder: rank 0's, or the servers' last ones."""

    server_placement: Literal["own", "shared"] = "own"
    """Parameter servers as processes of their own, or each within the process of a worker."""

    out: str = "runs"
    """Folder in which each run makes its own."""

    def check_training(self) -> None:
        parse_injection(self.inject)
        if not 0 <= self.label_smoothing < 1:
            given = shown(self.label_smoothing)
            raise InputError(f"--label-smoothing is {given}: it must be 0 or more, and less than 1.")
        for one, other in ALTERNATIVES:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise InputError(f"you set both {flag(one)} and {flag(other)}: give one of them.")
