"""The record that a run leaves behind, and the one place where it is read back, checked and made safe to show.

Everything a table or report needs is here, and nothing here needs torch. docs/internals/record.md lists the fields.
"""

from gradsync.record.damage import DamagedRecord, UnreadableRecord, read_json
from gradsync.record.folder import (
    CONFIG_FILE,
    OBJECTS_FILE,
    PROBE_FILE,
    RESOLVED_FILE,
    SUMMARY_FILE,
    RankLog,
    create_folder,
    finite,
    has_files,
    is_probe,
    is_run,
    log_file,
    model_file,
    rank_file,
    rank_files,
    strict_json,
    write_json,
)
from gradsync.record.rank import (
    RankRecord,
    rank_records,
    read_rank,
    record_of,
    records_until_damage,
)
from gradsync.record.rows import Row, read_rows, rows_so_far
from gradsync.record.run import (
    ProbeRun,
    Recorded,
    Run,
    read_config,
    read_resolved,
    read_run,
    settings,
    write_settings,
)
from gradsync.record.summaries import SCHEMA, ProbeSummary, RankSummary, RunSummary

__all__ = [
    "CONFIG_FILE",
    "OBJECTS_FILE",
    "PROBE_FILE",
    "RESOLVED_FILE",
    "SCHEMA",
    "SUMMARY_FILE",
    "DamagedRecord",
    "ProbeRun",
    "ProbeSummary",
    "RankLog",
    "RankRecord",
    "RankSummary",
    "Recorded",
    "Row",
    "Run",
    "RunSummary",
    "UnreadableRecord",
    "create_folder",
    "finite",
    "has_files",
    "is_probe",
    "is_run",
    "log_file",
    "model_file",
    "rank_file",
    "rank_files",
    "rank_records",
    "read_config",
    "read_json",
    "read_rank",
    "read_resolved",
    "read_rows",
    "read_run",
    "record_of",
    "records_until_damage",
    "rows_so_far",
    "settings",
    "strict_json",
    "write_json",
    "write_settings",
]
