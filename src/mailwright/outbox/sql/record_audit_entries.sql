INSERT INTO audit_log (tenant_id, actor, action, subject, detail, created_at)
SELECT :tenant_id, :actor, :action, e.subject, e.detail, :now
FROM rows(:entries: subject text, detail text) AS e
