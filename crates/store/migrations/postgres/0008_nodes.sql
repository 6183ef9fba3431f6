-- Heartbeats of the nodes that share the database. Times are ticks of 100 ns since 1970.
CREATE TABLE nodes (
    node BIGINT PRIMARY KEY,
    -- Start of the service without an outage that the node knows of.
    serving_since BIGINT NOT NULL,
    -- Time of the last heartbeat, by the clock of the database.
    heartbeat BIGINT NOT NULL
) WITH (fillfactor = 50);
