//! Describes the schema in a format that does not depend on the version of the server or of `pg_dump`,
//! so that a test can compare it with the committed description.

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::row::get;

const DESCRIBE: &str = "
    SELECT part, line FROM (
        SELECT table_name || ' 1' AS part, ordinal_position::bigint AS place,
            table_name || '.' || column_name || ' ' || data_type
            || CASE WHEN collation_name IS NULL THEN '' ELSE ' collate ' || collation_name END
            || CASE is_nullable WHEN 'YES' THEN '' ELSE ' not null' END
            || CASE is_identity WHEN 'YES' THEN ' identity' ELSE '' END AS line
        FROM information_schema.columns WHERE table_schema = current_schema()
        UNION ALL
        SELECT c.conrelid::regclass || ' 2', 0,
            c.conrelid::regclass || ': ' || pg_get_constraintdef(c.oid)
        FROM pg_constraint c WHERE c.connamespace = current_schema()::regnamespace
            AND c.conrelid <> 0 AND c.contype IN ('p', 'u', 'f', 'c')
        UNION ALL
        SELECT tablename || ' 3', 0, indexdef FROM pg_indexes WHERE schemaname = current_schema()
        UNION ALL
        SELECT 'sequence', 0, 'sequence ' || sequence_name FROM information_schema.sequences
        WHERE sequence_schema = current_schema()
    ) parts ORDER BY part COLLATE \"C\", place, line COLLATE \"C\"";

impl PostgresStore {
    /// Columns, constraints, indexes and sequences of the current schema, one per line.
    pub async fn describe_schema(&self) -> Result<String, StoreError> {
        let rows = self.query(DESCRIBE, &[]).await?;
        let lines = rows.iter().map(|row| get::<String>(row, "line"));
        lines.map(|line| line.map(|line| line + "\n")).collect()
    }
}
