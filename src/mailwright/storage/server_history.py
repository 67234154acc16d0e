"""Recognise that another PostgreSQL server, or an earlier state of the same one, took over.

A server has a timeline, which changes when a standby is promoted and when a backup is recovered up to a point in time.
Together with the identifier of the cluster, it names the history of the data. Every role may read both. The timeline is
read from the name of the current WAL file, because the control file has the new one only after the next checkpoint,
minutes later.
"""

from typing import Final

# The name of the stored value with the history that was compared last.
COMPARED: Final = "server_history"
HISTORY: Final = (
    "(SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) FROM pg_control_system())"
)
