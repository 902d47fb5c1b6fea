"""Parsing without processes; bad input through the real command."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.cli.arguments import parse
from gradsync.cli.commands import Cluster, Compare, Exec, Show, Train
from gradsync.cli.main import main
from gradsync.data import mnist
from gradsync.errors import InputError
from gradsync.study import BatchStudy, Scaling, Sweep
from gradsync.version import __version__


def parse_train(*args: str) -> Train:
    command = parse(["train", *args])
    assert isinstance(command, Train)
    return command


def test_flags_become_settings():
    run = parse_train("--model", "logistic", "--workers", "3", "--no-eval", "--norm", "none").run
    assert (run.model, run.workers, run.eval, run.norm) == ("logistic", 3, False, "none")


def test_strategy_options_by_name():
    assert parse_train("--options.bucket-mb", "5", "--seed", "3").run.options == {"bucket-mb": "5"}
    assert parse_train("--options.bucket-mb=5").run.options == {"bucket-mb": "5"}
    with pytest.raises(InputError, match="needs a value"):
        parse_train("--options.bucket-mb", "--seed", "3")
    with pytest.raises(InputError):  # 7 does not follow the name
        parse_train("--options.bucket-mb", "--seed", "3", "7")
    assert parse_train("--options", "bucket-mb", "5", "--options.other", "x").run.options == {
        "bucket-mb": "5",
        "other": "x",
    }
    assert parse_train("--options.bucket_mb", "5", "--options.bucket-mb=-6").run.options == {"bucket-mb": "-6"}
    with pytest.raises(InputError, match=r"no flag '--options\.bucket-mb'"):
        parse(["probe", "--options.bucket-mb", "5"])


def test_options_of_the_model_are_apart_from_those_of_the_strategy(tmp_path: Path):
    run = parse_train("--model-options.width", "64", "--options.bucket-mb=5", "--model-options.depth=2").run
    assert (run.model_options, run.options) == ({"width": "64", "depth": "2"}, {"bucket-mb": "5"})
    path = tmp_path / "run.toml"
    path.write_text('model = "gpt"\n[model-options]\nwidth = 32\nheads = 4\n')
    run = parse_train("--config", str(path), "--model-options.width", "64").run
    assert run.model_options == {"width": "64", "heads": "4"}
    assert parse_train("--metric", "rmse,own.py:f1", "--loss", "mse").run.metric == ("rmse", "own.py:f1")


def test_flags_win_over_the_file(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text('model = "logistic"\nepochs = 3\nbatch-size = 32\n[options]\nbucket-mb = 5\n')
    run = parse_train("--config", str(path), "--batch-size", "16", "--steps", "7").run
    assert (run.model, run.batch_size, run.steps, run.epochs) == ("logistic", 16, 7, None)
    assert run.options == {"bucket-mb": "5"}
    assert parse_train(f"--config={path}", "--batch-per-worker", "8").run.batch_size is None
    assert parse_train(f"--config={path}", "--batch_per_worker", "8").run.batch_size is None
    assert parse_train(f"--config={path}", "--options.bucket-mb", "9").run.options == {"bucket-mb": "9"}


def test_compare_has_the_four_ways_by_default_and_takes_others():
    command = parse(["compare"])
    assert isinstance(command, Compare)
    assert command.run.strategies == ("local", "gather-scatter", "all-reduce", "ddp")
    assert parse(["compare", "--strategies", "local", "ddp"]).run.strategies == ("local", "ddp")


def test_show_takes_folders():
    assert parse(["show", "a", "b"]) == Show(runs=(Path("a"), Path("b")))


def test_help_and_parsing_do_not_import_torch():
    code = (
        "import sys, gradsync.cli.main as m; m.parse(['compare']); "
        "print([name for name in ('torch', 'numpy', 'altair', 'pandas') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["compare", "--help"], ["data", "--help"]])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], args: list[str]):
    with pytest.raises(SystemExit) as ended:
        parse(args)
    assert ended.value.code == 0
    assert "usage: gradsync" in capsys.readouterr().out


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command that must be refused, in this process; returns what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path / "no-data"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    def run(*args: str) -> str:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            main(args)
        signal.signal(signal.SIGTERM, before)
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


BAD = {
    "unknown model": (["--model", "vgg1"], "Did you mean vgg11?"),
    "unknown data": (["--data", "cifar"], "Did you mean cifar10?"),
    "unknown strategy": (["--strategy", "dpp"], "Did you mean ddp?"),
    "several strategies": (
        ["--strategies", "ddp,ring"],
        "HINT: gradsync compare --strategies ddp,ring makes a run with each.",
    ),
    "unknown option": (["--strategy", "ddp", "--options.bucket-md", "3"], "Did you mean bucket-mb?"),
    "bad option": (["--strategy", "ddp", "--options.bucket-mb", "0"], "must be more than 0"),
    "unknown flag": (["--modle", "vgg11"], "--model"),
    "uneven batch": (["--workers", "3", "--batch-size", "64"], "Use --batch-size 63 or 66"),
    "no workers": (["--workers", "0"], "--workers is 0: it must be from 1 to 10,000"),
    "minus one worker": (["--workers", "-1"], "--workers is -1: it must be from 1 to 10,000"),
    "more workers than samples": (
        ["--model", "logistic", "--workers", "8", "--train-samples", "5"],
        "8 workers cannot share 5 training samples",
    ),
    "missing data": (["--data", "cifar10"], "Either run `gradsync data fetch cifar10`, or put"),
    "wrong data for the model": (["--data", "mnist-like.py:sets"], "there is no such file"),
    "unwritable folder": (
        ["--model", "logistic", "--out", "/proc/runs"],
        "cannot write to the output folder /proc/runs",
    ),
    "broken toml": (["--config", "broken.toml"], "line 2"),
    "own model that raises": (["--model", "own.py:breaks"], "ZeroDivisionError"),
    "gpu that is not there": (["--device", "cuda"], "no GPU here"),
    "loader processes for built-in data": (["--loader-processes", "2"], "needs none"),
    "local on two": (["--strategy", "local", "--workers", "2"], "HINT"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(refused, tmp_path: Path, case: str):
    (tmp_path / "broken.toml").write_text('model = "logistic"\nworkers = = 2\n')
    (tmp_path / "own.py").write_text("def breaks():\n    return 1 / 0\n")
    args, message = BAD[case]
    errors = refused("train", *args)
    assert message in errors
    ours = Path(sys.modules["gradsync"].__file__).parent
    assert str(ours) not in errors
    assert ("Traceback" in errors) == (case == "own model that raises")
    assert not (tmp_path / "runs").exists()


def test_compare_refuses_an_option_no_strategy_has(refused):
    errors = refused("compare", "--strategies", "local", "all-reduce", "--options.bucket-mb", "3")
    assert "none of local, all-reduce has an option bucket-mb" in errors


def test_show_refuses_what_is_no_run(refused, tmp_path: Path):
    assert "holds no run" in refused("show", str(tmp_path))


def test_damaged_data_is_refused_before_anything_starts(refused, tmp_path: Path):
    (tmp_path / "no-data").mkdir()
    for part in mnist.CONTENTS:
        (tmp_path / "no-data" / mnist.file_name(part)).write_bytes(b"cut short")
    errors = refused("train", "--model", "logistic", "--data", "mnist")
    assert "train-images-idx3-ubyte is truncated or altered" in errors
    assert mnist.CONTENTS["train-images"] in errors


def test_bad_input_in_a_process_of_its_own(cli):
    done = cli("train", "--model", "vgg1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gradsync: unknown model 'vgg1'. Did you mean vgg11?")


def test_folders_may_stand_after_a_list_of_columns():
    for given in (["--columns", "workers,total", "a", "b"], ["a", "b", "--columns=workers,total"]):
        command = parse(["show", *given])
        assert (command.columns, [str(run) for run in command.runs]) == (("workers", "total"), ["a", "b"])


def test_both_names_of_a_flag_are_taken_everywhere():
    assert (
        parse_train("--strategies", "ring").run.strategy == parse_train("--strategy", "ring").run.strategy == "ring"
    )
    for words in (["compare"], ["verify"], ["study", "scaling"]):
        for name in ("--strategy", "--strategies"):
            assert parse([*words, name, "ddp,ring"]).run.strategies == ("ddp", "ring")
    for name in ("--ntasks-per-node", "--ntasks_per_node", "--workers-per-node"):
        assert parse_train(name, "2", "--nodes", "2").run.workers_per_node == 2


def test_what_stands_behind_two_dashes_is_not_ours_to_read():
    command = parse(["cluster", "exec", "lab", "node2", "--", "ls", "--help", "--", "x"])
    assert isinstance(command, Cluster)
    assert command.action == Exec(name="lab", node="node2", words=("ls", "--help", "--", "x"))


def test_lists_whose_values_have_commas_are_separated_by_spaces():
    run = parse_train("--launcher", "slurm", "--sbatch", "gres=gpu:4,x", "constraint=a100").run
    assert run.sbatch == ("gres=gpu:4,x", "constraint=a100")


def test_a_sweep_varies_options_of_the_strategy():
    study = parse(
        ["study", "sweep", "--vary", "options.bucket-mb=1,5,25", "lr=0.1", "--options.first-bucket-mb", "2"]
    ).run
    assert [run.options for run in study.plan()] == [
        {"bucket-mb": size, "first-bucket-mb": "2"} for size in ("1", "5", "25")
    ]


def test_the_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"gradsync {__version__}\n")


def test_lists_may_be_written_with_commas():
    command = parse(["verify", "--workers", "2,3", "--steps", "4", "--strategies=ddp,all-reduce", "mine.py:A"])
    assert command.run.workers == (2, 3)
    assert command.run.strategies == ("ddp", "all-reduce", "mine.py:A")
    assert parse(["verify", "--workers", "2", "3,4"]).run.workers == (2, 3, 4)
    assert parse(["compare", "--strategies", "local", "ddp,all-reduce"]).run.strategies == (
        "local",
        "ddp",
        "all-reduce",
    )


def test_a_study_by_name_takes_lists_with_commas():
    command = parse(
        ["study", "scaling", "--workers", "1,2,4", "--modes", "weak", "--strategies", "ddp,ring", "--json"]
    )
    assert isinstance(command.run, Scaling) and command.json
    assert (command.run.workers, command.run.modes, command.run.strategies) == ((1, 2, 4), ("weak",), ("ddp", "ring"))
    assert parse(["study", "sweep", "--vary", "lr=0.1,0.2", "epochs=1"]).run.vary == ("lr=0.1,0.2", "epochs=1")


def test_a_study_from_a_file_with_flags_above_it(tmp_path: Path):
    file = tmp_path / "grid.toml"
    file.write_text('model = "logistic"\nepochs = 3\n[vary]\nlr = [0.1, 0.2]\naugment = [true, false]\n')
    study = parse(["study", str(file), "--steps", "7"]).run
    assert isinstance(study, Sweep)
    assert (study.steps, study.epochs, study.called, study.folder) == (7, None, "grid", None)
    assert study.vary == ("lr=0.1,0.2", "augment=true,false")
    file.write_text('study = "batch"\nbatch-sizes = [8, 16]\n[options]\nbucket-mb = 5\n')
    study = parse(["study", str(file)]).run
    assert isinstance(study, BatchStudy)
    assert (study.batch_sizes, study.options) == ((8, 16), {"bucket-mb": "5"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('study = "batsch"', "unknown study"),
        ("[vary]\nlr = 0.1", "must be a table of lists"),
        ("lrr = 1", "unknown setting"),
        ("[vary]\nlr = ['x']", "is not a valid value"),
    ],
)
def test_a_study_file_that_says_something_else(tmp_path: Path, text: str, message: str):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        parse(["study", str(tmp_path / "grid.toml")])
