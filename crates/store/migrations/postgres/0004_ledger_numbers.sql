-- Who follows the ledger of all jobs reads it by number alone.
CREATE INDEX ledger_number ON ledger (number);
