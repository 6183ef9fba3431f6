//! Renews leases without waiting for other transactions.

use kalends_recurrence::duration_to_ticks;
use tokio_postgres::Row;

use crate::engine_store::{LeaseRenewal, RenewalResult};
use crate::error::StoreError;
use crate::postgres::error::PostgresError;
use crate::postgres::row::{at, get, unsigned};
use crate::postgres::transaction::{Deadline, Operation, Transaction, query};
use crate::record::{Claim, FencingToken, NodeId};

/// Renews leases. A job that another transaction has locked is skipped: its renewal must not delay
/// those of all other jobs.
pub(super) struct RenewLeases(pub(super) Vec<LeaseRenewal>);

impl Operation for RenewLeases {
    type Output = Vec<RenewalResult>;

    const DEADLINE: Deadline = Deadline::Renewal;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<RenewalResult>, PostgresError> {
        // `UPDATE` reads the newest version of a run, so a claim that another node has just made is
        // seen; the lock of the job prevents one that is being made. `held` may be outdated, which
        // only repeats the renewal.
        let sql = "
            WITH wanted AS (
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
                    WITH ORDINALITY AS w (run, token, lease, number)
            ), clock AS MATERIALIZED (
                SELECT clock_timestamp() AS at
            ), locked AS MATERIALIZED (
                SELECT s.job FROM states s
                WHERE s.job IN (SELECT r.job FROM runs r JOIN wanted w ON w.run = r.id)
                FOR UPDATE SKIP LOCKED
            ), renewed AS (
                UPDATE runs r
                SET lease_until = w.lease
                    + extract(epoch FROM date_trunc('second', c.at))::bigint * 10000000
                    + extract(microseconds FROM c.at)::bigint % 1000000 * 10
                FROM wanted w, clock c
                WHERE r.id = w.run AND r.token = w.token AND r.job IN (SELECT job FROM locked)
                RETURNING r.id, r.owner, r.token, r.lease_until
            )
            SELECT n.owner, n.token, n.lease_until, r.token IS NOT DISTINCT FROM w.token AS held
            FROM wanted w
                LEFT JOIN renewed n ON n.id = w.run AND n.token = w.token
                LEFT JOIN runs r ON r.id = w.run
            ORDER BY w.number";
        let runs: Vec<_> = self.0.iter().map(|renewal| renewal.run.0).collect();
        let tokens: Vec<_> = self.0.iter().map(|renewal| renewal.token.0.cast_signed()).collect();
        let leases: Vec<_> =
            self.0.iter().map(|renewal| duration_to_ticks(renewal.lease)).collect();
        let rows = query(transaction, sql, &[&runs, &tokens, &leases]).await?;
        Ok(rows.iter().map(result).collect::<Result<_, StoreError>>()?)
    }
}

fn result(row: &Row) -> Result<RenewalResult, StoreError> {
    let owner: Option<i64> = get(row, "owner")?;
    Ok(match owner {
        Some(owner) => RenewalResult::Renewed(Claim {
            owner: NodeId(owner.cast_unsigned()),
            token: FencingToken(unsigned(row, "token")?),
            lease_until: at(row, "lease_until")?,
        }),
        None if get(row, "held")? => RenewalResult::Busy,
        None => RenewalResult::Lost,
    })
}
