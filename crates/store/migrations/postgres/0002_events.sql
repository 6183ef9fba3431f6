-- Who follows the history of all jobs reads it by number alone.
CREATE INDEX history_sequence ON history (sequence);
