"""A real Slurm of four nodes on this host, in a folder of its own: one controller, four slurmd, one munged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from started import alive, wait_until

NODES = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")

CONF = """\
ClusterName=test
FirstJobId={first_job}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{nodes}
PartitionName=main Nodes=node[1-4] Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"


def why_not() -> str | None:
    """What is missing here to start one."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no Slurm here: {', '.join(missing)} is not installed"
    return None if os.geteuid() == 0 else "a Slurm of our own needs root"


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]


class SlurmCluster:
    """SLURM_CONF is ``conf`` for whoever talks to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        host, ports = socket.gethostname().split(".")[0], free_ports(1 + NODES)
        nodes = [NODE.format(number=number, host=host, port=ports[number]) for number in range(1, 1 + NODES)]
        first_job = random.randrange(1, 1_000_000)  # where ranks meet depends on it: two clusters on a host get along
        facts = {"host": host, "ports": ports, "folder": folder, "first_job": first_job, "nodes": "\n".join(nodes)}
        self.conf.write_text(CONF.format(**facts))
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "munged.seed"}
        self.call("munged", "--force", *(f"--{name}={self.folder / file}" for name, file in files.items()))
        self.call("slurmctld")
        for number in range(1, 1 + NODES):
            self.call("slurmd", "-N", f"node{number}")
        wait_until(lambda: self.call("sinfo", "-h", "-o", "%T %D").split() == ["idle", str(NODES)], 30)

    def call(self, *words: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def stop(self) -> None:
        """Jobs first, then the daemons, each by its number."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.call("scancel", "--user=root")
            wait_until(lambda: not self.call("squeue", "-h"), 20)
        pids = [int(path.read_text()) for path in self.folder.glob("*.pid")]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with suppress(AssertionError):
            wait_until(lambda: not any(map(alive, pids)), 10)
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
