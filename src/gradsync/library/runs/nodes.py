"""Emulated nodes: what has to be done before torch is imported, and what a named cluster fills in."""

from __future__ import annotations

from typing import Any

from gradsync.study.making.several import SettingsStudy


def on_nodes(asked: Any) -> Any:
    """The settings, filled in from the cluster they name. Making nodes needs privileges, which are acquired first."""
    if wants_nodes(asked):
        from gradsync.cluster import privilege, spec

        privilege.ensure()  # while there is only one thread
        return spec.filled(asked)
    return asked


def wants_nodes(asked: Any) -> bool:
    """Whether the settings, or one of a study's runs, need emulated nodes."""
    return asked.is_emulated or (isinstance(asked, SettingsStudy) and any(run.is_emulated for run in asked.plan()))
