"""What can be asked on the command line: one class per command, a field per flag or argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from tyro.conf import FlagCreatePairsOff, Positional, Suppress, arg, subcommand

from gradsync.config import RunConfig, Shape
from gradsync.config.probe import ProbeConfig
from gradsync.study import Batch, Communication, LargeBatch, Pareto, Scaling, Study, Sweep, SyncAsync
from gradsync.study.compare import CompareConfig
from gradsync.study.verify import VerifyConfig

Json = FlagCreatePairsOff[bool]
Columns = tuple[str, ...]


@dataclass(kw_only=True)
class Train:
    """Train one model one way."""

    run: Annotated[RunConfig, arg(name="")] = field(default_factory=RunConfig)

    config: Path | None = None
    """Settings from a TOML file, or from the config.json of an earlier run; flags win over it."""

    columns: Columns = ()
    """Figures in the table, for instance workers,accuracy,total. A wrong name lists them all."""

    json: Json = False
    """Print the summary as JSON; everything else goes to stderr."""

    print: FlagCreatePairsOff[bool] = False
    """Start nothing: print what torchrun, mpiexec or Slurm would be given, to use by hand, then gradsync finish."""


@dataclass(kw_only=True)
class Finish:
    """Write the summary of a run that was started by hand, when its ranks have ended."""

    run: Positional[Path]
    """The run folder."""

    anyway: FlagCreatePairsOff[bool] = False
    """Also if ranks have not ended, because they were killed."""

    json: Json = False
    """Print the summary as JSON."""


@dataclass(kw_only=True)
class Compare:
    """Train the same model under several strategies and print one table."""

    run: Annotated[CompareConfig, arg(name="")] = field(default_factory=CompareConfig)

    config: Path | None = None
    """Settings from a TOML file; flags win over it."""

    columns: Columns = ()
    """Figures in the table, for instance workers,accuracy,total. A wrong name lists them all."""

    json: Json = False
    """Print the summaries as JSON; everything else goes to stderr."""


Kind = TypeVar("Kind", bound=Study)


@dataclass(kw_only=True)
class StudyRuns(Generic[Kind]):
    run: Annotated[Kind, arg(name="")]

    json: Json = False
    """Print the tables as JSON; everything else goes to stderr."""


AnyStudy = (
    Annotated[StudyRuns[Batch], subcommand("batch", description=Batch.__doc__)]
    | Annotated[StudyRuns[Scaling], subcommand("scaling", description=Scaling.__doc__)]
    | Annotated[StudyRuns[Communication], subcommand("communication", description=Communication.__doc__)]
    | Annotated[StudyRuns[LargeBatch], subcommand("large-batch", description=LargeBatch.__doc__)]
    | Annotated[StudyRuns[SyncAsync], subcommand("sync-async", description=SyncAsync.__doc__)]
    | Annotated[StudyRuns[Sweep], subcommand("sweep", description=Sweep.__doc__)]
    | Annotated[StudyRuns[Pareto], subcommand("pareto", description=Pareto.__doc__)]
)


@dataclass(kw_only=True)
class Studies:
    """Many runs and what they show together; or your own grid: gradsync study FILE.toml."""

    action: AnyStudy


@dataclass(kw_only=True)
class Reproduce:
    """A published report again: its tables and figures beside ours, and a verdict on what it claims."""

    reports: Positional[tuple[str, ...]] = ()
    """cs744-vgg11-2317, cs744-vgg11-14, hpml-lab4, cs744-tensorflow, mpi-mnist. Default: --list."""

    all: FlagCreatePairsOff[bool] = False
    """All five."""

    list: FlagCreatePairsOff[bool] = False
    """Show what each holds, and about how long it takes here."""

    scale: Literal["full", "short", "smoke"] = "short"
    """full: as the report did; short: fewer steps or samples, minutes each; smoke: to see that it runs."""

    only: tuple[str, ...] = ()
    """Tables and figures, for instance --only "Table 2" "Figure 7". Default: all of the report's."""

    steps: int | None = None
    """End every run after so many steps, whatever the scale."""

    cluster: bool = True
    """Emulated nodes where the report had a cluster; without it all workers are processes of this machine."""

    out: str = "studies"
    """Folder in which each report has its own. What is finished in there is not run again."""

    json: Json = False
    """Print tables and verdicts as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Report:
    """Make a page from run folders and studies; or tables and charts for a paper."""

    paths: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Run folders, folders of them, or the folder of a study."""

    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Where to write it. Default: report.html; for csv, svg and png a folder."""

    format: Literal["html", "md", "csv", "json", "latex", "svg", "png"] | None = None
    """html: one page with everything in it; csv: a file per table; svg, png: a file per chart. Default: by --out."""

    open: FlagCreatePairsOff[bool] = False
    """Show the page in the browser."""


@dataclass(kw_only=True)
class Show:
    """Print the table of runs from their folders."""

    runs: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Run folders, or folders of them."""

    columns: Columns = ()
    """Figures in the table, for instance workers,read,step,epoch,test-loss,accuracy,total. A wrong name lists all."""

    ledger: FlagCreatePairsOff[bool] = False
    """Also print where the time and the bytes of each run went, rank by rank, with bars."""

    json: Json = False
    """Print the summaries as JSON."""


@dataclass(kw_only=True)
class Verify:
    """Prove that N workers compute what one computes: exit code 1 if a strategy is wrong."""

    run: Annotated[VerifyConfig, arg(name="")] = field(default_factory=VerifyConfig)

    json: Json = False
    """Print the findings as JSON; everything else goes to stderr."""


@dataclass(kw_only=True)
class Probe:
    """Time collectives between workers, from small messages to large ones, and fit latency and bandwidth."""

    run: Annotated[ProbeConfig, arg(name="")] = field(default_factory=ProbeConfig)

    csv: Path | None = None
    """Also write the times and bandwidths into this file, as in probe.csv of the folder."""

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
    """Up to which step: a hundred steps of four ranks are some 10 MB."""


@dataclass(kw_only=True)
class Fetch:
    """Download data sets into $GRADSYNC_DATA and check their hashes."""

    names: Positional[tuple[str, ...]] = ()
    """cifar10, mnist. Default: both."""

    mirror: str | None = None
    """Fetch the files from this address instead of their home."""


@dataclass(kw_only=True)
class VerifyData:
    """Check the hashes of the data sets that are here."""

    names: Positional[tuple[str, ...]] = ()
    """cifar10, mnist. Default: those that are found."""


@dataclass(kw_only=True)
class List:
    """Show which data sets are here, and where."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class Data:
    """Fetch, verify and list the data sets."""

    action: (
        Annotated[Fetch, subcommand("fetch")]
        | Annotated[VerifyData, subcommand("verify")]
        | Annotated[List, subcommand("list")]
    )


@dataclass(kw_only=True)
class Up:
    """Make an emulated cluster of namespaces on this machine. Default: 2 nodes."""

    name: Positional[str]
    """What to call it, for instance lab."""

    shape: Annotated[Shape, arg(name="")] = field(default_factory=Shape)


@dataclass(kw_only=True)
class Status:
    """Show the emulated clusters that are up."""

    name: Positional[str | None] = None
    """One of them. Default: all."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class ProbeCluster:
    """Measure rate and round trip between every two nodes and the share of a core each gets: asked against got."""

    name: Positional[str]
    """The cluster."""

    json: Json = False
    """Print it as JSON."""


@dataclass(kw_only=True)
class Exec:
    """Run a command on a node: gradsync cluster exec lab node2 -- COMMAND ..."""

    name: Positional[str]
    """The cluster."""

    node: Positional[str]
    """node1, node2, ..."""

    words: Suppress[tuple[str, ...]] = ()


@dataclass(kw_only=True)
class Down:
    """Take an emulated cluster away, with all that runs on it."""

    name: Positional[str | None] = None
    """The cluster."""

    all: FlagCreatePairsOff[bool] = False
    """All of them, and what crashes have left."""


@dataclass(kw_only=True)
class Cut:
    """Pull a node's cable: no message gets in or out until it is healed."""

    name: Positional[str]
    """The cluster."""

    node: Positional[str]
    """node1, node2, ..."""


@dataclass(kw_only=True)
class Heal(Cut):
    """Put a node's cable back."""


@dataclass(kw_only=True)
class Cluster:
    """Emulated clusters on this machine."""

    action: (
        Annotated[Up, subcommand("up")]
        | Annotated[Status, subcommand("status")]
        | Annotated[ProbeCluster, subcommand("probe")]
        | Annotated[Exec, subcommand("exec")]
        | Annotated[Down, subcommand("down")]
        | Annotated[Cut, subcommand("cut")]
        | Annotated[Heal, subcommand("heal")]
    )
