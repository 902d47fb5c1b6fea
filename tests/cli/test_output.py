"""What commands print as JSON."""

from __future__ import annotations

import json

import pytest

from gradsync.cli.output import print_json


def test_json_has_no_nan_and_no_infinity(capsys: pytest.CaptureFixture[str]):
    print_json({"loss": [1.5, float("nan"), float("inf")]})

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(capsys.readouterr().out, parse_constant=refused) == {"loss": [1.5, None, None]}
