-- Durations of the phases of an attempt, in microseconds. NULL if a phase did not occur.
ALTER TABLE history ADD COLUMN dns INTEGER;
ALTER TABLE history ADD COLUMN connect INTEGER;
ALTER TABLE history ADD COLUMN tls INTEGER;
ALTER TABLE history ADD COLUMN first_byte INTEGER;
ALTER TABLE history ADD COLUMN total INTEGER;
