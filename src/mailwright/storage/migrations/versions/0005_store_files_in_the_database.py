"""Store files in the database."""

from mailwright.storage.revision import sql

# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (
    sql(
        sqlite="""CREATE TABLE stored_files (
  name TEXT NOT NULL,
  position BIGINT NOT NULL,
  content BLOB NOT NULL,
  stored_at BIGINT NOT NULL,
  CONSTRAINT pk_stored_files PRIMARY KEY (name, position)
)""",
        postgresql="""CREATE TABLE stored_files (
  name TEXT NOT NULL,
  position BIGINT NOT NULL,
  content BYTEA NOT NULL,
  stored_at BIGINT NOT NULL,
  CONSTRAINT pk_stored_files PRIMARY KEY (name, position)
)""",
    ),
)
