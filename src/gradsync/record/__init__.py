"""What a run leaves behind, and the one place where that is read back: checked, and safe to show.

Everything a table or report needs is here, and nothing here needs torch. docs/record.md lists the fields.
"""

from gradsync.record.damage import DamagedRecord, UnreadableRecord, read_json
from gradsync.record.folder import (
    CONFIG_FILE,
    PROBE_FILE,
    SUMMARY_FILE,
    RankLog,
    create_folder,
    finite,
    is_probe,
    is_run,
    log_file,
    model_file,
    rank_file,
    rank_files,
    strict_json,
    write_json,
)
from gradsync.record.rows import Row, rank_rows, read_rows, rows_so_far, rows_until_damage
from gradsync.record.run import Run, read_config, read_run, settings
from gradsync.record.summaries import SCHEMA

__all__ = [
    "CONFIG_FILE",
    "PROBE_FILE",
    "SCHEMA",
    "SUMMARY_FILE",
    "DamagedRecord",
    "RankLog",
    "Row",
    "Run",
    "UnreadableRecord",
    "create_folder",
    "finite",
    "is_probe",
    "is_run",
    "log_file",
    "model_file",
    "rank_file",
    "rank_files",
    "rank_rows",
    "read_config",
    "read_json",
    "read_rows",
    "read_run",
    "rows_so_far",
    "rows_until_damage",
    "settings",
    "strict_json",
    "write_json",
]
