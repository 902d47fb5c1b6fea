"""The scripts in one process, unchanged: one_after_another.py SCRIPT... -- ARGUMENT... Each begins with a line."""

import os
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    split = sys.argv.index("--")
    scripts, given = sys.argv[1:split], sys.argv[split + 1 :]
    for number, script in enumerate(scripts):
        port = 51002 + number  # a rank that is ahead would meet the others at the store of the script before
        print(f"== {script}", flush=True)
        host, rank, size = (given[given.index(name) + 1] for name in ("--master-ip", "--rank", "--num-nodes"))
        if script == "accelerated":  # it finds its rank in the environment
            os.environ.update(RANK=rank, LOCAL_RANK="0", WORLD_SIZE=size, MASTER_ADDR=host, MASTER_PORT=str(port))
        sys.argv = [script, *given, "--master-ip", f"tcp://{host}:{port}"]
        runpy.run_path(str(Path(__file__).with_name(f"{script}.py")), run_name="__main__")
