-- How long the parts of an attempt took, in microseconds. What did not happen is empty.
ALTER TABLE history ADD COLUMN dns INTEGER;
ALTER TABLE history ADD COLUMN connect INTEGER;
ALTER TABLE history ADD COLUMN tls INTEGER;
ALTER TABLE history ADD COLUMN first_byte INTEGER;
ALTER TABLE history ADD COLUMN total INTEGER;
