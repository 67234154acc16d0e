DELETE FROM dmarc_sources WHERE report_key IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
