"""What is hooked and replaced in torch so that a script is seen, and how all of it is put back."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gradsync.library.exits import ended_by, put_back
from gradsync.observe.averaging import Averaging
from gradsync.observe.messages import Messages
from gradsync.observe.watcher import Watcher


class Hooks:
    """Those of one process."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._averaging = Averaging(watcher)
        self._messages = Messages(watcher)
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        watcher = self._watcher
        self.replace([nn.Module], "__call__", self._outermost_call)
        self.replace([torch.autograd], "backward", self._backward)
        self.replace([GradScaler], "update", self._scaler_update)
        self.replace([DataLoader], "__iter__", self._pass_over_data)
        self.replace([_BaseDataLoaderIter], "__next__", self._next_batch)
        self.replace([os], "_exit", self._hard_exit)
        before = register_optimizer_step_pre_hook(lambda optimizer, *_: watcher.optimizer_steps(optimizer))
        after = register_optimizer_step_post_hook(lambda optimizer, *_: watcher.optimizer_stepped(optimizer))
        self._undo += [before.remove, after.remove]
        if torch.distributed.is_available():
            self._messages.install(self.replace)
            self._averaging.install(self.replace)
            watcher.stamp_buckets = self._averaging.stamp
        atexit.register(lambda: watcher.ends(ended_by()))
        watcher.on_record = self._record_begins
        watcher.remove_hooks = self.remove

    def _record_begins(self) -> None:
        Finalize(None, lambda: self._watcher.ends(ended_by()), exitpriority=-100)
        if torch.distributed.is_available():
            self._messages.note_functional(self.replace)

    def remove(self) -> None:
        """Put everything back that nobody else has replaced since."""
        while self._undo:
            self._undo.pop()()
        self._averaging.stop()

    def replace(self, places: list[Any], name: str, made: Callable[[Any], Any]) -> None:
        original = vars(places[0])[name] if isinstance(places[0], type) else getattr(places[0], name)
        ours = made(original)
        for place in places:
            if getattr(place, name) is original:
                setattr(place, name, ours)
                self._undo.append(functools.partial(put_back, place, name, ours, original))

    def _outermost_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Of a call of a model, the outermost module is seen. The modules in it cost one more function call each."""
        watcher, depth = self._watcher, Depth()

        @functools.wraps(original)
        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if depth.inside or not watcher.in_its_thread:
                return original(module, *args, **kwargs)
            depth.inside = True
            try:
                watcher.model_called(module, args, kwargs)
                return original(module, *args, **kwargs)
            finally:
                depth.inside = False

        leave_to_python(__call__)
        return __call__

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        watcher = self._watcher

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            watcher.backward_begins()
            try:
                return original(*args, **kwargs)
            finally:
                watcher.backward_ends()

        leave_to_python(backward)
        return backward

    def _scaler_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def update(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            self._watcher.scaler_updated()
            return answer

        return update

    def _pass_over_data(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:
            iterator = original(loader)
            self._watcher.pass_begins(iterator)
            return iterator

        return __iter__

    def _next_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            with self._watcher.loading(iterator):
                return original(iterator)

        return __next__

    # --- the end of the process ---

    def _hard_exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """os._exit calls no exit handler."""

        @functools.wraps(original)
        def _exit(status: int) -> None:
            self._watcher.ends(ended_by() or (SystemExit(status) if status else None))
            original(status)

        return _exit


class Depth:
    """Whether a module is being called."""

    inside = False


def leave_to_python(function: Any) -> None:
    """torch.compile is to pass over this frame of ours, and to compile what it calls as it would without us.

    torch.compiler.disable does the same, but imports the compiler, which takes seconds, in every process.
    """
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)
    elif hasattr(frames, "set_code_exec_strategy"):  # newer versions
        skip, rest = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, rest))
