//! From names to addresses, once for all who ask at the same time.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_environment::{Entropy, Stopwatch};
use tokio::net::lookup_host;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::dns::{self, Kind};

/// How long a name may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer is used. Short, because the system does not say how long it holds.
const ANSWER_LIFETIME: Duration = Duration::from_secs(5);
/// Answers kept at once; when there are more, all are asked for again.
const ANSWERS_MAX: usize = 4_096;
/// Names asked for at once: the system answers on threads.
const QUESTIONS_MAX: usize = 64;

type Answer = Arc<OnceCell<Option<Arc<[IpAddr]>>>>;

/// Finds addresses.
pub(super) struct Resolver {
    /// Empty where the system is asked.
    servers: Vec<SocketAddr>,
    entropy: Arc<dyn Entropy>,
    answers: Mutex<HashMap<String, (Stopwatch, Answer)>>,
    questions: Semaphore,
}

impl Resolver {
    pub(super) fn new(servers: Vec<SocketAddr>, entropy: Arc<dyn Entropy>) -> Resolver {
        let (answers, questions) = (Mutex::default(), Semaphore::new(QUESTIONS_MAX));
        Resolver { servers, entropy, answers, questions }
    }

    /// All addresses of a name; none where it has none, or nobody says within the time.
    pub(super) async fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let answer = self.answer(name);
        let found = answer.get_or_init(|| self.ask(name)).await.clone();
        if found.is_none() {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.remove(name);
        }
        found
    }

    /// The answer for a name, or the place where it will be.
    fn answer(&self, name: &str) -> Answer {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, answer)) = answers.get(name)
            && since.elapsed() < ANSWER_LIFETIME
        {
            return answer.clone();
        }
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        let answer = Answer::default();
        answers.insert(name.to_owned(), (Stopwatch::start(), answer.clone()));
        answer
    }

    async fn ask(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let asking = async {
            let _turn = self.questions.acquire().await.map_err(io::Error::other)?;
            match self.servers.is_empty() {
                true => {
                    let found = lookup_host((name, 0)).await?;
                    Ok::<Vec<IpAddr>, io::Error>(found.map(|address| address.ip()).collect())
                }
                false => self.ask_servers(name).await,
            }
        };
        let found = timeout(RESOLVE_TIMEOUT, asking).await.ok()?.ok()?;
        // One in the clothes of the other is the other.
        let found: Vec<_> = found.into_iter().map(|address| address.to_canonical()).collect();
        (!found.is_empty()).then(|| found.into())
    }

    async fn ask_servers(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut chance = [0; 4];
        self.entropy.fill(&mut chance).map_err(io::Error::other)?;
        let [a, b, c, d] = chance;
        let (v4, v6) = tokio::join!(
            dns::ask(&self.servers, name, Kind::A, u16::from_be_bytes([a, b])),
            dns::ask(&self.servers, name, Kind::Aaaa, u16::from_be_bytes([c, d])),
        );
        match (v4, v6) {
            (Ok(v4), Ok(v6)) => Ok([v4, v6].concat()),
            // Servers that know only one kind fail for the other.
            (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => Ok(found),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}
