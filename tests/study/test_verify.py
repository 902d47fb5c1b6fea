"""Plans, certificates and verdicts of verify, without processes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradsync.config import Facts
from gradsync.errors import InputError
from gradsync.record import DamagedRecord, Run, model_file, read_run, write_json
from gradsync.record.certificate import CERTIFICATE_FILE, Certificate, read_certificate, write_certificate
from gradsync.study.verify import ModelFacts, VerifyStudy, judge, parameter_distance
from made_up import made_up, resolved

ROUNDING = 1e-8
FAILED = {"rank": 1, "type": "OSError", "message": "no", "traceback": "", "log": []}


@pytest.mark.parametrize(
    ("distance", "same_bits", "lossy", "by_share", "verdict"),
    [
        (0.0, True, False, False, "exact"),
        (1e-15, True, False, False, "equal to rounding"),
        (1e-3, True, False, False, "wrong"),
        (0.0, False, False, False, "wrong"),
        (math.inf, True, True, True, "wrong"),
        (1e-3, True, True, False, "approximate by design"),
        (1e-3, False, True, False, "approximate by design"),
        (0.0, True, True, False, "approximate by design"),
        (1e-3, True, False, True, "approximate by design"),
        (1e-3, False, False, True, "wrong"),
    ],
)
def test_the_verdict(distance: float, same_bits: bool, lossy: bool, by_share: bool, verdict: str):
    assert judge(distance, same_bits, ROUNDING, lossy, by_share) == verdict


def save(folder: Path, **tensors: list[float]) -> Path:
    folder.mkdir(exist_ok=True)
    torch.save({name: torch.tensor(values) for name, values in tensors.items()}, model_file(folder))
    return folder


def test_the_distance_is_the_worst_parameter_relative_to_its_largest_number(tmp_path: Path):
    one = save(tmp_path / "one", weight=[4.0, 0.0], bias=[0.1], running_mean=[9.0])
    other = save(tmp_path / "other", weight=[4.0, 1.0], bias=[0.1], running_mean=[0.0])
    assert parameter_distance(other, one, {"weight", "bias"}) == pytest.approx(0.25)
    assert parameter_distance(one, one, {"weight", "bias"}) == 0.0
    near_zero = save(tmp_path / "near", weight=[4.0, 0.0], bias=[1e-12], running_mean=[0.0])
    nearer = save(tmp_path / "nearer", weight=[4.0, 0.0], bias=[3e-12], running_mean=[0.0])
    assert parameter_distance(nearer, near_zero, {"weight", "bias"}) < 1e-6, "noise about zero is no distance"
    lost = save(tmp_path / "lost", weight=[4.0, math.nan], bias=[0.1], running_mean=[9.0])
    assert parameter_distance(lost, one, {"weight", "bias"}) == math.inf


def test_the_batch_splits_over_every_number_of_workers_or_is_refused():
    assert VerifyStudy(workers=(2, 3, 4)).batch_size == 24
    assert VerifyStudy(workers=(5, 7)).batch_size == 35
    assert VerifyStudy(workers=(5,)).batch_size == 25
    with pytest.raises(InputError, match="does not split evenly over 3 workers"):
        VerifyStudy(workers=(2, 3), batch_size=16)
    with pytest.raises(InputError, match="each must be from 1 to 10,000"):
        VerifyStudy(workers=(0, 2))
    with pytest.raises(InputError, match="set --batch-size"):
        VerifyStudy(batch_per_worker=4)


def test_it_is_20_steps_unless_asked_otherwise():
    assert (VerifyStudy().steps, VerifyStudy(steps=3).steps) == (20, 3)
    assert resolved(VerifyStudy(epochs=2).run("ddp", 2)).steps is None
    with pytest.raises(InputError, match="verify logs to no trackers"):
        VerifyStudy(tensorboard=True)


def test_the_plan_is_the_reference_then_all_others_those_with_as_many_processes_beside_each_other():
    study = VerifyStudy(
        strategies=("ps-sync", "ddp", "data-parallel"), workers=(2, 3), servers=(1, 2), transport=("gloo", "mpi")
    )
    found = [(asked.strategy, asked.workers, asked.servers, asked.transport) for asked in study.plan()]
    assert found == [
        ("local", 1, None, "auto"),
        ("ddp", 2, None, "gloo"),
        ("ps-sync", 2, 1, "gloo"),
        ("ps-sync", 2, 2, "gloo"),
        ("ddp", 3, None, "gloo"),
        ("ps-sync", 3, 1, "gloo"),
        ("ps-sync", 3, 2, "gloo"),
        ("ps-sync", 2, 1, "mpi"),
        ("ps-sync", 2, 2, "mpi"),
        ("ps-sync", 3, 1, "mpi"),
        ("ps-sync", 3, 2, "mpi"),
        ("data-parallel", 2, None, "auto"),
        ("data-parallel", 3, None, "auto"),
    ]


def made(tmp_path: Path, study: VerifyStudy, **weights: float) -> list[Run]:
    """The runs of its plan, with one weight each, by strategy."""
    runs = [made_up(tmp_path, asked) for asked in study.repeated(study.plan())]
    for run in runs:
        save(run.folder, weight=[weights.get((run.asked.strategy or "").replace("-", "_"), 1.0)])
    return runs


def test_every_run_gets_a_certificate_against_the_reference_of_its_seed(tmp_path: Path):
    study = VerifyStudy(strategies=("all-reduce", "ddp", "ps-async"), workers=(2,), repeat=2)
    study.model_facts = ModelFacts(frozenset({"weight"}))
    runs = made(tmp_path, study, ddp=2.0, ps_async=1.5)
    study.complete(runs)
    references = {run.asked.seed: run.folder.name for run in runs if run.asked.strategy == "local"}
    for run in runs:
        certificate = read_certificate(run.folder)
        if run.asked.strategy == "local":
            assert certificate is None
            continue
        assert certificate and certificate.reference == references[run.asked.seed]
        expected = {"all-reduce": ("exact", 0.0), "ddp": ("wrong", 1.0), "ps-async": ("approximate by design", 0.5)}
        assert (certificate.verdict, certificate.distance) == expected[run.asked.strategy or ""]
    assert not study.passes(runs)
    assert study.passes([run for run in runs if run.asked.strategy != "ddp"])
    assert study.sections(runs)[0].sentences[0].startswith("2 of 6 do not produce the same model as one process")


def test_a_lossy_strategy_is_approximate_by_design(tmp_path: Path):
    study = VerifyStudy(strategies=("mine.py:Mine",), workers=(2,))
    study.model_facts = ModelFacts(frozenset({"weight"}))
    study.facts = {"mine.py:Mine": Facts(exact=False)}
    _, run = runs = made(tmp_path, study)
    study.complete(runs)
    certificate = read_certificate(run.folder)
    assert certificate and (certificate.verdict, certificate.differs) == ("approximate by design", "lossy by design")
    section, conformance = study.sections(runs)
    assert [row[2] for row in conformance.exhibits[0].rows] == ["yes", "–"]  # of the bits, and of the distance
    assert section.sentences[0].startswith("0 of 1 produce the same model as one process; 1")
    assert "approximate by design" in section.sentences[0], "which is no pass"


def test_a_failed_run_has_a_failed_certificate_and_without_a_reference_nothing_is_made(tmp_path: Path):
    study = VerifyStudy(strategies=("ddp",), workers=(2,))
    reference, other = study.plan()
    runs = [made_up(tmp_path, reference), made_up(tmp_path, other, error=FAILED)]
    study.complete(runs)
    certificate = read_certificate(runs[1].folder)
    assert certificate and (certificate.verdict, certificate.differs) == ("failed", "rank 1: OSError: no")
    assert not study.is_needless(other, runs[:1])
    broken = made_up(tmp_path, reference, error=FAILED)
    assert study.is_needless(other, [broken])
    assert not study.is_needless(replace(other, seed=1), [broken]), "that one has a reference of its own"


def test_a_certificate_is_checked_when_it_is_read(tmp_path: Path):
    run = made_up(tmp_path, VerifyStudy().run("local", 1))
    assert read_certificate(run.folder) is None
    whole = Certificate(reference="x", distance=None, same_bits=None, verdict="failed", differs="it ended")
    write_certificate(run.folder, whole)
    assert read_certificate(run.folder) == whole
    write_json(run.folder / CERTIFICATE_FILE, whole.to_dict() | {"verdict": "fine"})
    with pytest.raises(DamagedRecord, match=r"certificate\.json: verdict is 'fine'"):
        read_certificate(run.folder)
    assert isinstance(read_run(run.folder), Run)
