-- The latest scheduled time of the ledger rows of a span, so that the read of a period does not go back
-- to rows before it. NULL for history.
ALTER TABLE spans ADD COLUMN latest INTEGER;
UPDATE spans SET latest = (SELECT max(to_at) FROM ledger WHERE id >= span * 512 AND id < span * 512 + 512)
WHERE kind = 1;
