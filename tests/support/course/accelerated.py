"""The same loop written for accelerate, which wraps model, optimizer and data."""

import hashlib

from accelerate import Accelerator
from torch import nn

from training import arguments, parts

if __name__ == "__main__":
    given = arguments()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(*parts(given, own_share=False))  # it divides them itself
    for images, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    inner = accelerator.unwrap_model(model)
    digest = hashlib.sha256(b"".join(item.detach().numpy().tobytes() for item in inner.parameters())).hexdigest()
    print(f"rank {accelerator.process_index}: final parameters {digest}\n", end="", flush=True)
    # DDP goes before its group, or torch may wait for threads of gloo that wait for Python's lock (4 of 20 runs).
    model, optimizer, loader = accelerator.free_memory(model, optimizer, loader)
    accelerator.end_training()
