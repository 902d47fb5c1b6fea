"""What is trained, on what, and how: one field per setting, one class per group of flags in ``--help``.

Where the processes run is set in placement; how many there are, and how they synchronize, in run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gradsync.config.injection import parse_injection
from gradsync.config.task import CROSS_ENTROPY, check_task
from gradsync.config.values import flag, shown
from gradsync.config.window import DEFAULT_WINDOW, parse_window
from gradsync.errors import InputError

Buffers = Literal["local", "broadcast", "average"]

# Two ways to set the same thing: a flag for one replaces the value a file gives for the other.
ALTERNATIVES = [("batch_size", "batch_per_worker"), ("epochs", "steps")]


@dataclass(kw_only=True)
class TaskSettings:
    """The model and the data it is trained on."""

    model: str = "vgg11"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, gpt, or your own as package.module:function or
    file.py:function."""

    model_options: dict[str, str] = field(default_factory=dict)
    """Options of the model, one flag each: --model-options.width 256 (gpt: width, depth, heads, context, dropout);
    those of your own are the arguments of its function."""

    norm: Literal["batch", "none"] = "batch"
    """Normalization layers of the built-in models; none takes BatchNorm out."""

    data: str = "synthetic"
    """synthetic, cifar10, mnist, text:FILE (the bytes of a file, for gpt), or your own as package.module:function
    (returns train and test Datasets)."""

    train_samples: int | None = None
    """Train on the first N samples. Default: all; synthetic makes 2560 (fewer of large images)."""

    test_samples: int | None = None
    """Test on the first N samples. Default: all; synthetic makes 512."""

    augment: bool = True
    """Random crops and flips in training, where the data set defines them (cifar10)."""

    loss: str = "cross-entropy"
    """cross-entropy, mse, bce (binary cross-entropy of logits), or your own as file.py:function, which takes
    (outputs, target) and returns the mean over the samples."""

    metric: tuple[str, ...] = ()
    """accuracy, perplexity, rmse, or your own as file.py:function, which takes (outputs, target) and returns a
    number; none for none. Default: accuracy for cross-entropy and bce, rmse for mse, perplexity for gpt."""

    seed: int = 0
    """Seed of the initial parameters, the shuffles and the augmentation."""


@dataclass(kw_only=True)
class Recipe:
    """Batches, optimizer, learning-rate schedule, and what the workers share."""

    batch_size: int | None = None
    """Global batch: samples per step over all workers, split evenly. Default: 64."""

    batch_per_worker: int | None = None
    """Samples per step and worker, instead of --batch-size."""

    epochs: int | None = None
    """Passes over the training data. Default: 1."""

    steps: int | None = None
    """Stop after N steps, instead of --epochs."""

    accumulate: int = 1
    """Gradient accumulation: compute each worker's share of the batch in N pieces, to save memory."""

    optimizer: str | None = None
    """Update rule: sgd, adam, adamw, lars (sgd with a learning rate per layer, scaled to the norm of its parameters),
    or your own as file.py:function, which takes (parameters, lr). Default: sgd; adamw for gpt, with which sgd learns
    little."""

    lr: float | None = None
    """Learning rate. Default: 0.001 for adam and adamw, 1 for lars, else 0.01."""

    lr_scaling: Literal["none", "linear", "sqrt"] | None = None
    """Scale the learning rate linearly with the workers, or by their square root. Default: none; linear for
    --batch-per-worker with a global batch above 1024."""

    warmup_epochs: float | None = None
    """Epochs over which the learning rate rises to its full value. Default: none; where it is scaled and the global
    batch is above 1024, 5 epochs, but at most a quarter of the run."""

    schedule: Literal["constant", "cosine", "step"] = "constant"
    """Learning-rate schedule after warm-up: cosine decays to 0, step divides by ten at each of --decay-epochs."""

    decay_epochs: tuple[int, ...] = (30, 60, 80)
    """Epochs after which --schedule step divides the learning rate by ten."""

    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes in training, for instance 0.1, with cross-entropy."""

    clip_norm: float | None = None
    """Before each update, scale the agreed gradients down to this norm over all parameters, if theirs is larger."""

    momentum: float = 0.9
    """Momentum of sgd and lars."""

    weight_decay: float | None = None
    """L2 penalty, decoupled for adamw. Default: 1e-4 for sgd and lars, 0.01 for adamw, else 0."""

    reshuffle: bool = True
    """Shuffle the samples anew in every epoch; without it, every epoch has the same order."""

    start: Literal["same", "own"] = "same"
    """Initial parameters: rank 0's for every worker (same), or each worker's own (own), to see the effect."""

    sync_bn: bool = False
    """Compute BatchNorm statistics over the global batch instead of each worker's share."""

    buffers: Buffers | None = None
    """BatchNorm running statistics: each worker's own (local), rank 0's for all (broadcast), or the average.
    Default: the strategy's."""

    keep_going: bool = False
    """Continue when the loss is NaN or infinite."""

    server_placement: Literal["own", "shared"] = "own"
    """Parameter servers in processes of their own, or each inside the process of a worker (shared)."""


@dataclass(kw_only=True)
class Compute:
    """What each worker computes with."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the workers; auto takes a GPU where there is one."""

    precision: Literal["fp64", "fp32", "bf16", "fp16"] = "fp32"
    """Floating-point format; bf16 and fp16 are autocast over float32 parameters; fp16, on GPUs, scales the loss."""

    compile: bool = False
    """Compile the model with torch.compile."""

    threads: int | None = None
    """Compute threads per worker. Default: cores ÷ workers, at least 1."""

    loader_processes: int = 0
    """Loader processes per worker for your own Datasets; the built-in sets need none."""


@dataclass(kw_only=True)
class Measuring:
    """What is measured and tested."""

    eval: bool = True
    """Test after every epoch and at the end."""

    train_accuracy: bool = False
    """Also record the accuracy, or the other metrics, of each training batch."""

    measure: bool = True
    """Time phases and collectives, count bytes, sample the host. Without it only the time per step is known."""

    conformance: bool = False
    """Afterwards, try what a strategy must do besides training, as verify does: same start, declared bytes, state
    saved and restored, hooks removed, and the training loops of users."""

    window: str = DEFAULT_WINDOW
    """Which steps are timed: first:last, all (from step 2 on), or last:100. The first step is never timed."""

    inject: str | None = None
    """Slow one rank down on purpose: rank=2,where=data|forward|backward|link,ms=200 (link: a delay before each of its
    messages)."""


@dataclass(kw_only=True)
class Output:
    """What is written while a run goes on, and where."""

    out: str = "runs"
    """Folder in which each run makes its own."""

    log_every: int = 20
    """Steps between two lines of output, if the output is not a terminal."""

    log_to: tuple[str, ...] = ()
    """Also log the run to tensorboard, mlflow or wandb while it goes on, or to several; or to your own as
    file.py:Class."""

    tensorboard: bool = False
    """The same as --log-to tensorboard: event files in the run folder."""

    save_model: bool = False
    """Keep the trained parameters and buffers as model.pt in the run folder: rank 0's, or with servers those of the
    worker that has seen the most updates."""


@dataclass(kw_only=True)
class Training(Output, Measuring, Compute, Recipe, TaskSettings):
    """What is trained, on what, how, and what is measured and written."""

    @property
    def trackers(self) -> tuple[str, ...]:
        """Where else the run is logged, each once."""
        return tuple(dict.fromkeys([*self.log_to, *(["tensorboard"] if self.tensorboard else [])]))

    def check_training(self) -> None:
        parse_injection(self.inject)
        parse_window(self.window)
        if not 0 <= self.label_smoothing < 1:
            given = shown(self.label_smoothing)
            raise InputError(f"--label-smoothing is {given}: it must be 0 or more, and less than 1.")
        if self.label_smoothing and self.loss != CROSS_ENTROPY:
            raise InputError(f"--label-smoothing is for --loss cross-entropy, and the loss is {self.loss}.")
        check_task(self.loss, self.metric)
        for one, other in ALTERNATIVES:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise InputError(f"you set both {flag(one)} and {flag(other)}: give one of them.")
