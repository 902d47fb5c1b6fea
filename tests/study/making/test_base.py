"""What every study does with its runs: what limits the results is said before any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import HOST, with_figures
from gradsync.exhibit.remarks import ONE_RUN_EACH
from gradsync.study import BatchStudy, Communication, LargeBatch, Pareto, Scaling, Sweep, SyncAsync
from gradsync.study.making.document import study_sections
from gradsync.study.making.several import SettingsStudy
from made_up import made_up, resolved


def test_what_limits_the_results_of_a_study_comes_before_any_of_them(tmp_path: Path):
    """The weak scaling fits no law, and 4 workers share 2 cores: neither is left for after the strong scaling."""
    study = Scaling(model="logistic", workers=(1, 2, 4), batch_per_worker=32, steps=5)
    pace = {1: 1.0, 2: 4.0, 4: 2.2}  # of weak scaling
    runs = []
    for config in study.plan():
        workers = resolved(config).workers
        seconds = pace[workers] if config.batch_per_worker else 4 / min(workers, 2)
        runs.append(with_figures(made_up(tmp_path, config, compute=seconds), host=HOST, threads=1))
    summary = study.summary(runs)
    assert summary[0].startswith("Gustafson's law does not describe ddp: the fit is off by up to 1")
    assert summary[1].endswith(
        ": 4 compute threads share 2 cores. This result is limited by the cores of the machine."
    )
    assert summary[2].startswith("Strong scaling of ddp: at best")
    assert len(set(summary)) == len(summary) and ONE_RUN_EACH in summary
    strong, weak = study.told(runs)
    assert list(strong.sentences[:3]) == summary[:3], "also where no summary is shown"
    assert not set(weak.sentences) & set(strong.sentences)
    (detail,) = [each for each in study_sections(study, runs, pictures=False) if each.title == "Runs"]
    assert detail.detail and summary[1] not in detail.sentences


@pytest.mark.parametrize("kind", [Scaling, BatchStudy, Communication, LargeBatch, SyncAsync, Sweep, Pareto])
def test_no_study_keeps_a_doubt_about_its_runs_to_itself(tmp_path: Path, kind: type[SettingsStudy]):
    study = kind(model="logistic", workers=(2,), steps=5)
    runs = [with_figures(made_up(tmp_path, asked), host=HOST, threads=4) for asked in study.plan()]
    doubts = list(study.told(runs)[0].doubts)
    assert any("compute threads share 2 cores" in sentence for sentence in doubts)
    assert study.summary(runs)[: len(doubts)] == doubts
