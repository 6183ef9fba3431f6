-- No foreign keys of states and runs to jobs: the check locks the row of the job for each run, which
-- writes to its page, and took half of the work of a run. A transaction that writes a state or a run
-- holds the lock of the state or has created the job, and a deletion takes the same lock. `kalends store
-- check` finds rows of no job.
ALTER TABLE runs DROP CONSTRAINT runs_job_fkey;
ALTER TABLE states DROP CONSTRAINT states_job_fkey;
