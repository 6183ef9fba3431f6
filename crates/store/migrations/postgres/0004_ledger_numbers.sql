-- For the event stream, which reads the ledger of all jobs by number.
CREATE INDEX ledger_number ON ledger (number);
