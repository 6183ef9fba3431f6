//! Jobs of Kalends, created over its API.

use crate::engine::CONNECTIONS;
use crate::engine::client::Client;
use crate::peers::workload::Load;

const VERSION: &str = "api-version=2016-03-01";
const COLLECTION: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/\
     Microsoft.Scheduler/jobCollections/c";

/// Creates the jobs of a load over concurrent connections.
pub async fn create_jobs(server: &str, sink: &str, load: Load) -> anyhow::Result<()> {
    let collection = r#"{"location":"West US","properties":{"sku":{"name":"P20Premium"}}}"#;
    let path = format!("{COLLECTION}?{VERSION}");
    Client::connect(server).await?.must("PUT", &path, collection).await?;
    let mut tasks = Vec::new();
    for first in 0..CONNECTIONS {
        let mut client = Client::connect(server).await?;
        let sink = sink.to_owned();
        tasks.push(tokio::spawn(async move {
            for job in (first..load.count).step_by(CONNECTIONS) {
                let path = format!("{COLLECTION}/jobs/j{job}?{VERSION}");
                let start = jiff::Timestamp::from_microsecond(load.due(job))?;
                client.must("PUT", &path, &definition(&start, "", &sink, &load.body(job))).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// A job that posts a body to the sink at a time: a one-time job, unless `members` has a recurrence. `members`
/// are further members of the definition, each with a comma at its end.
pub fn definition(start: &jiff::Timestamp, members: &str, sink: &str, body: &str) -> String {
    format!(
        r#"{{"properties":{{"startTime":"{start}",{members}"action":{{"type":"Http","request":{{"uri":"http://{sink}/","method":"POST","body":"{body}"}}}}}}}}"#
    )
}
