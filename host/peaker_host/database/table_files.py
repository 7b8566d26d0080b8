"""Tables of other engines than InnoDB, by the files that they have: seen without a right on any table."""

from __future__ import annotations

import os
from typing import List

# MySQL 8.4 manual, chapters on the MyISAM, CSV, ARCHIVE and MERGE engines. A table of MEMORY has no file, and no copy
# of a server has its rows.
_ENGINES = {".MYD": "MyISAM", ".CSV": "CSV", ".ARZ": "ARCHIVE", ".MRG": "MERGE"}
# The logs that MySQL keeps in tables of CSV are of the server itself.
_OF_THE_SERVER = ("mysql", "performance_schema", "sys")
_ROCKSDB = ".rocksdb"
_MOST_NAMED = 10


def tables_not_innodb(datadir: str) -> List[str]:
    """As `schema.table (engine)`, in the spelling of the files, the first of them and how many more there are.

    A clone would bring them empty (MySQL 8.4 manual, "Clone Plugin Limitations").
    """
    found = [_ROCKSDB] if os.path.isdir(os.path.join(datadir, _ROCKSDB)) else []
    with os.scandir(datadir) as entries:
        schemas = sorted(one.name for one in entries if one.is_dir() and one.name not in _OF_THE_SERVER)
    for schema in schemas:
        names = sorted(os.path.splitext(name) for name in _files(os.path.join(datadir, schema)))
        found += [f"{schema}.{name} ({_ENGINES[kind]})" for name, kind in names if kind in _ENGINES]
    more = len(found) - _MOST_NAMED
    return found if more <= 0 else [*found[:_MOST_NAMED], f"and {more} more"]


def _files(directory: str) -> List[str]:
    """None of a schema that is dropped meanwhile."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
