-- Records that Parquet files replace an export, unless it was continued or replaced meanwhile.
UPDATE retention_exports SET replaced_at = :now WHERE file = :file AND bytes = :bytes AND replaced_at IS NULL
