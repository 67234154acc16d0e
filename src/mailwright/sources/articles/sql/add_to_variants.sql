-- Adds to the number of recipients of each variant of a run.
INSERT INTO run_variants (run_key, slices, template_key, recipients)
SELECT n.run_key, n.slices, n.template_key, n.recipients
FROM rows(:variants: run_key bigint, slices text, template_key bigint, recipients int) AS n
WHERE true
ON CONFLICT (run_key, slices) DO UPDATE SET recipients = run_variants.recipients + excluded.recipients
