//! A client without a scheduler: what the machine allows at best.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::workload::Load;
use super::{now, sleep_until};
use crate::engine::CONNECTIONS;
use crate::engine::client::Client;

/// Sends the requests of a load when they are due: over many connections if all are due at the same
/// time, otherwise from a thread that sleeps between them.
pub fn run(sink: &str, load: Load) -> anyhow::Result<()> {
    println!("ready");
    match load.spacing {
        0 => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(burst(sink, load))
        }
        _ => steady(sink, load),
    }
}

async fn burst(sink: &str, load: Load) -> anyhow::Result<()> {
    let mut tasks = Vec::new();
    for first in 0..CONNECTIONS {
        let mut client = Client::connect(sink).await?;
        tasks.push(tokio::spawn(async move {
            sleep_until(jiff::Timestamp::from_microsecond(load.first)?).await;
            for job in (first..load.count).step_by(CONNECTIONS) {
                client.must("POST", "/", &load.body(job)).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

fn steady(sink: &str, load: Load) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(sink)?;
    stream.set_nodelay(true)?;
    let mut response = [0; 1024];
    for job in 0..load.count {
        let body = load.body(job);
        let length = body.len();
        let request =
            format!("POST / HTTP/1.1\r\nhost: {sink}\r\ncontent-length: {length}\r\n\r\n{body}");
        let left = load.due(job) - now().as_microsecond();
        std::thread::sleep(std::time::Duration::from_micros(left.max(0).unsigned_abs()));
        stream.write_all(request.as_bytes())?;
        // The response is a single packet.
        anyhow::ensure!(stream.read(&mut response)? > 0, "the sink has closed");
    }
    Ok(())
}
