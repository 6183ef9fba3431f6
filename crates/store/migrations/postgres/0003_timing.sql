-- How long the parts of an attempt took, in microseconds. What did not happen is empty.
ALTER TABLE history
    ADD COLUMN dns INTEGER,
    ADD COLUMN connect INTEGER,
    ADD COLUMN tls INTEGER,
    ADD COLUMN first_byte INTEGER,
    ADD COLUMN total INTEGER;
