"""Python runs this when it starts a program under ``gradsync watch``: the folder of this file is first in PYTHONPATH.

It waits until the program imports torch. Until then it costs next to nothing, and a program without torch is not
touched at all.
"""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

HERE = Path(__file__).parent


def run_the_hidden_one() -> None:
    """The sitecustomize that Python would have run without us, if there is one."""
    sys.path[:] = [place for place in sys.path if Path(place or ".").absolute() != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def entrance():
    """gradsync.observe.entrance from its file, as the Python of the program need not have gradsync installed."""
    spec = importlib.util.spec_from_file_location("gradsync_entrance", HERE.parent / "entrance.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


try:
    entrance().expect_torch()
except Exception as error:  # the program must start, whatever is wrong with us
    print(f"gradsync watch: nothing can be recorded in this process: {error}", file=sys.stderr)
run_the_hidden_one()
