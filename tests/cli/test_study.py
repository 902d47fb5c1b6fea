"""A study that was carried out, for other programs."""

from __future__ import annotations

import json
from pathlib import Path

from exhibited import steps_of
from gradsync.cli.study import CarriedOut
from gradsync.draw.export import write
from gradsync.record import strict_json
from gradsync.study import Sweep
from gradsync.study.making.document import study_document


def test_its_json_has_everything_that_its_page_has(tmp_path: Path):
    runs = [steps_of(tmp_path, "ddp", 2, seconds, lr=lr) for seconds, lr in ((0.1, 0.01), (0.2, 0.1))]
    study = Sweep(vary=("lr=0.01,0.1",))
    document = study_document(study, runs, tmp_path, "gradsync study sweep")
    (report,) = write(document, tmp_path / "report.json", "json")
    shown = json.loads(strict_json(CarriedOut(study, tmp_path, runs, 2, document, None).as_json()))
    assert json.loads(report.read_text()).items() <= shown.items()
    assert (shown["study"], shown["folder"], shown["report"], len(shown["runs"])) == ("sweep", str(tmp_path), None, 2)
    assert {section["title"] for section in shown["sections"] if section["detail"]}, "about the runs, too"
