"""Count answers of imports."""

from mailwright.storage.revision import sql

# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (
    sql("ALTER TABLE imports ADD COLUMN asked BIGINT DEFAULT 0 NOT NULL"),
    sql("ALTER TABLE imports ADD COLUMN said_no BIGINT DEFAULT 0 NOT NULL"),
    sql("ALTER TABLE imports ADD COLUMN subscribed BIGINT DEFAULT 0 NOT NULL"),
    sql("ALTER TABLE imports ADD COLUMN unanswered BIGINT DEFAULT 0 NOT NULL"),
    sql("ALTER TABLE imports ADD COLUMN unreadable BIGINT DEFAULT 0 NOT NULL"),
)
