DELETE FROM dmarc_reports WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
