-- Deletes the recipients up to an address, whose messages were accepted. After the last batch, deletes all.
DELETE FROM profile_recipients
WHERE run_key = :run_key AND (CAST(:is_last AS boolean) OR email <= CAST(:email AS text))
