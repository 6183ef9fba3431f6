-- Lists of disabled and of failing jobs, among any number of others. A job that is neither is in none of these
-- indexes.
CREATE INDEX state_disabled ON state (job) WHERE switched_on = 0;
CREATE INDEX state_failing ON state (job) WHERE consecutive_failures >= 3;
