-- Lists of disabled and of failing jobs, among any number of others. A run of a job that is neither writes to
-- none of these indexes.
CREATE INDEX states_disabled ON states (job) WHERE NOT enabled;
CREATE INDEX states_failing ON states (job) WHERE consecutive_failures >= 3;
