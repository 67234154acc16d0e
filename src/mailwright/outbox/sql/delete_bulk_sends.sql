-- Deletes sends that no frequency cap counts any more.
DELETE FROM bulk_sends WHERE sent_at < :before
