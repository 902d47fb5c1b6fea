"""The commands of the command line: one class per command, one field per flag or argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from tyro.conf import FlagCreatePairsOff, Positional, arg

from gradsync.cli.flags import ONE_WORD
from gradsync.cli.watching.commands import Merge, Watch
from gradsync.config import RunConfig, Shape
from gradsync.study import STUDIES, CompareStudy, ProbeStudy, Study, VerifyStudy

Json = FlagCreatePairsOff[bool]
Columns = tuple[str, ...]


@dataclass(kw_only=True)
class Train:
    """Train one model with one synchronization strategy."""

    run: RunConfig = field(default_factory=RunConfig)

    config: Path | None = None
    """Settings from a TOML file, or from the config.json of an earlier run; flags win over it."""

    columns: Columns = ()
    """Figures in the table, for instance workers,accuracy,total. An unknown name prints the list."""

    details: FlagCreatePairsOff[bool] = False
    """Also print details rank by rank, such as bytes against the closed form, and host metrics."""

    json: Json = False
    """Print the summary as JSON; everything else goes to stderr."""

    print: FlagCreatePairsOff[bool] = False
    """Start nothing: print the command for torchrun, mpiexec or Slurm, to start by hand; then use gradsync finish."""


@dataclass(kw_only=True)
class Finish:
    """Write the summary of a run started by hand, once its ranks have ended."""

    run: Positional[Path]
    """The run folder."""

    anyway: FlagCreatePairsOff[bool] = False
    """Write it even if ranks have not ended, because they were killed."""

    json: Json = False
    """Print the summary as JSON."""


@dataclass(kw_only=True)
class Compare:
    """Train the same model under several strategies and compare them."""

    run: CompareStudy = field(default_factory=CompareStudy)

    config: Path | None = None
    """Settings from a TOML file; flags win over it."""

    details: FlagCreatePairsOff[bool] = False
    """Also print what otherwise only the HTML page shows: everything about each run, rank by rank."""

    json: Json = False
    """Print the summaries as JSON; everything else goes to stderr."""


Kind = TypeVar("Kind", bound=Study)


@dataclass(kw_only=True)
class StudyRuns(Generic[Kind]):
    run: Kind

    details: FlagCreatePairsOff[bool] = False
    """Also print what otherwise only the HTML page shows: everything about each run, rank by rank."""

    json: Json = False
    """Print the tables as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Studies:
    """Make many runs and show them together; gradsync study FILE.toml carries out your own."""

    action: Any

    actions: ClassVar[dict[str, Any]] = {name: StudyRuns[kind] for name, kind in STUDIES.items()}  # type: ignore[valid-type]


@dataclass(kw_only=True)
class Reproduce:
    """Repeat a published report: its figures next to ours, its claims judged."""

    reports: Positional[tuple[str, ...]] = ()
    """cs744-vgg11-2317, cs744-vgg11-14, hpml-lab4, cs744-tensorflow, mpi-mnist. Default: list them."""

    all: FlagCreatePairsOff[bool] = False
    """All five reports."""

    list: FlagCreatePairsOff[bool] = False
    """Show what each report holds, and about how long it takes on this machine."""

    scale: Literal["full", "short", "smoke"] = "short"
    """full: as the report did; short: fewer steps or samples, minutes each; smoke: to see that it runs."""

    only: tuple[str, ...] = ()
    """Tables and figures, for instance --only "Table 2" "Figure 7". Default: all of the report's."""

    steps: int | None = None
    """End every run after N steps, whatever the scale."""

    cluster: bool = True
    """Emulate nodes where the report had a cluster; otherwise all workers are plain processes on this machine."""

    repeat: int = 1
    """Make every run N times, each time with the next seed: figures are then mean ± standard deviation."""

    folder: str | None = None
    """The folder of the report's runs. Default: REPORT-SCALE in --out. Finished runs are kept."""

    out: str = "studies"
    """The folder in which each report gets its own, unless --folder names one."""

    details: FlagCreatePairsOff[bool] = False
    """Also print what otherwise only the HTML page shows: everything about each run, rank by rank."""

    json: Json = False
    """Print tables and verdicts as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Report:
    """Make a page, or tables and charts for a paper, from runs and studies."""

    paths: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Run folders, folders of them, or the folder of a study."""

    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Where to write it. Default: report.html; for csv, svg and png a folder."""

    format: Literal["html", "md", "csv", "json", "latex", "svg", "png"] | None = None
    """html: one page with everything in it; csv: a file per table; svg, png: a file per chart. Default: the suffix of
    --out."""

    window: str | None = None
    """Time these steps instead of those the runs were made with: 2:40, all, or last:100."""

    open: FlagCreatePairsOff[bool] = False
    """Show the page in the browser."""


@dataclass(kw_only=True)
class Show:
    """Print the tables of runs and studies from their folders."""

    runs: Positional[tuple[Path, ...]] = ()
    """Run folders, studies, or folders of them. Default: the folders runs and studies."""

    columns: Annotated[Columns, ONE_WORD] = ()
    """Figures in the table, for instance workers,read,step,epoch,test-loss,accuracy,total. An unknown name prints the
    list."""

    details: Annotated[FlagCreatePairsOff[bool], arg(aliases=["--ledger"])] = False
    """Also print details rank by rank, such as bytes against the closed form, and host metrics."""

    window: str | None = None
    """Time these steps instead of those the runs were made with: 2:40, all, or last:100."""

    json: Json = False
    """Print the summaries as JSON."""


@dataclass(kw_only=True)
class Verify:
    """Check that N workers compute what one does; exit code 1 if not."""

    run: VerifyStudy = field(default_factory=VerifyStudy)

    details: FlagCreatePairsOff[bool] = False
    """Also print what otherwise only the HTML page shows: everything about each run, rank by rank."""

    json: Json = False
    """Print the certificate and the summaries as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Probe:
    """Time collectives between workers, and fit latency and bandwidth."""

    run: ProbeStudy = field(default_factory=ProbeStudy)

    csv: Path | None = None
    """Also write the times and bandwidths into this file, a line for each transport, operation and size."""

    details: FlagCreatePairsOff[bool] = False
    """Also print what otherwise only the HTML page shows: everything about each run, rank by rank."""

    json: Json = False
    """Print the summary as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Trace:
    """Write a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""

    run: Positional[Path]
    """The run folder, or a folder of runs: then the newest."""

    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Where to write it. Default: trace.json in the run folder."""

    until: int = 100
    """Last step in the trace: a hundred steps of four ranks are some 10 MB."""


@dataclass(kw_only=True)
class Fetch:
    """Download data sets into $GRADSYNC_DATA and check their hashes."""

    names: Positional[tuple[str, ...]] = ()
    """cifar10, mnist. Default: both."""

    mirror: str | None = None
    """Fetch the files from this address instead of their original site."""


@dataclass(kw_only=True)
class VerifyData:
    """Check the hashes of the data sets on this machine."""

    names: Positional[tuple[str, ...]] = ()
    """cifar10, mnist. Default: those that are found."""


@dataclass(kw_only=True)
class List:
    """Show which data sets are on this machine, and where."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class Data:
    """Fetch, verify and list the data sets."""

    action: Any

    actions: ClassVar[dict[str, Any]] = {"fetch": Fetch, "verify": VerifyData, "list": List}


@dataclass(kw_only=True)
class Up:
    """Make an emulated cluster of network namespaces on this machine."""

    name: Positional[str]
    """What to call it, for instance lab."""

    like: Literal["cloudlab"] | None = None
    """Names and addresses of another cluster: cloudlab has node0 to node3 at 10.10.1.1 to 10.10.1.4 on eth1, with
    7gbit and half a core each unless you say otherwise."""

    shape: Shape = field(default_factory=Shape)


@dataclass(kw_only=True)
class Status:
    """Show the emulated clusters that are up."""

    name: Positional[str | None] = None
    """One of them. Default: all."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class ProbeCluster:
    """Measure bandwidth, round trip and CPU share of every node, against its settings."""

    name: Positional[str]
    """The cluster."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class Exec:
    """Run a command on a node: gradsync cluster exec lab node2|all -- COMMAND ..."""

    name: Positional[str]
    """The cluster."""

    node: Positional[str]
    """node1, node2, ...; or all: then {rank} and {node} in the command are filled in, the ranks from 0."""

    words: Positional[tuple[str, ...]] = ()
    """The command and its arguments, after --."""


@dataclass(kw_only=True)
class Down:
    """Remove an emulated cluster, with every process on it."""

    name: Positional[str | None] = None
    """The cluster."""

    all: FlagCreatePairsOff[bool] = False
    """All of them, and whatever crashes left behind."""


@dataclass(kw_only=True)
class Cut:
    """Cut a node off: no message gets in or out until gradsync cluster heal."""

    name: Positional[str]
    """The cluster."""

    node: Positional[str]
    """node1, node2, ..."""


@dataclass(kw_only=True)
class Heal(Cut):
    """Connect a node again."""


@dataclass(kw_only=True)
class Cluster:
    """Make, use and remove emulated clusters on this machine."""

    action: Any

    actions: ClassVar[dict[str, Any]] = {
        "up": Up,
        "status": Status,
        "probe": ProbeCluster,
        "exec": Exec,
        "down": Down,
        "cut": Cut,
        "heal": Heal,
    }


@dataclass(kw_only=True)
class Gradsync:
    """Train a model data-parallel under any synchronization strategy, and see what each costs.

    gradsync COMMAND --help lists the flags of a command; gradsync --version prints the version.
    """

    action: Any

    actions: ClassVar[dict[str, Any]] = {
        "train": Train,
        "compare": Compare,
        "watch": Watch,
        "finish": Finish,
        "study": Studies,
        "reproduce": Reproduce,
        "report": Report,
        "verify": Verify,
        "probe": Probe,
        "show": Show,
        "trace": Trace,
        "merge": Merge,
        "data": Data,
        "cluster": Cluster,
    }
