-- Durations of the phases of an attempt, in microseconds. NULL if a phase did not occur.
ALTER TABLE history
    ADD COLUMN dns INTEGER,
    ADD COLUMN connect INTEGER,
    ADD COLUMN tls INTEGER,
    ADD COLUMN first_byte INTEGER,
    ADD COLUMN total INTEGER;
