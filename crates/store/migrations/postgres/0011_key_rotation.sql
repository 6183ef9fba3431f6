-- Rotation of the master key.

-- One row, and during a rotation a second one with the check of the new key.
ALTER TABLE key_check DROP CONSTRAINT key_check_id_check;
ALTER TABLE key_check ADD CONSTRAINT key_check_id_check CHECK (id IN (1, 2));

-- Keys that were derived from the first master key, encrypted with the present one. Empty until the
-- first rotation.
CREATE TABLE key_material (
    name TEXT COLLATE "C" PRIMARY KEY,
    sealed BYTEA NOT NULL
);
