//! Job search in a collection that is larger than one scan.

use std::net::SocketAddr;

use kalends_domain::{
    CollectionName, CollectionPath, GroupName, GroupPath, JobName, JobPath, PlanLimits,
    SubscriptionId,
};
use kalends_server::Settings;
use kalends_store::record::JobRecord;
use kalends_store::{ApiStore as _, JobFilter, JobPut, JobWrite, Page, SCAN_MAX, WaitingRuns};
use kalends_wire::Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{COLLECTION, Server, start_with};

/// More than two scans read.
const JOBS: usize = 2 * SCAN_MAX + 345;

/// The body of a success.
pub(crate) async fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let (status, body) = exchange(server, method, path, body).await;
    assert!((200..300).contains(&status), "{path}: {status} {body}");
    body
}

/// The status and body of a response.
pub(crate) async fn exchange(
    server: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) fn jobs(below: &str) -> String {
    let (path, version) = COLLECTION.split_once('?').unwrap();
    format!("{path}/jobs{below}?{version}")
}

pub(crate) fn collection() -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
    CollectionPath { group, collection: CollectionName::new("jc").unwrap() }
}

fn name(number: usize) -> String {
    format!("j{number:05}")
}

/// Stores a copy of a job under another name, with a description.
async fn copy(server: &Server, job: &JobRecord, number: usize, description: Option<&str>) {
    let mut definition = job.job.definition.clone();
    definition.extensions.description = description.map(str::to_owned);
    let put = JobPut {
        uid: job.job.uid,
        created: job.job.created,
        definition,
        facts: Default::default(),
        state: job.state,
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    };
    let path = JobPath { job: JobName::new(&name(number)).unwrap(), ..job.path.clone() };
    let decide = move |_: kalends_store::JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    server.store.edit_job(path, Box::new(decide)).await.unwrap();
}

/// A server with [`JOBS`] jobs, some of which have the description "a needle".
async fn haystack(is_needle: impl Fn(usize) -> bool) -> Server {
    let settings = Settings { plans: PlanLimits::Off, ..Settings::default() };
    let server = start_with(settings, None).await;
    let standard = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
    send(server.address, "PUT", COLLECTION, standard).await;
    let job = r#"{"properties":{"startTime":"2027-01-01T00:00:00Z","action":{"type":"Http","request":{"uri":"http://example.com/","method":"GET"}}}}"#;
    send(server.address, "PUT", &jobs(&format!("/{}", name(0))), job).await;
    let (page, all) = (Page::first(1), JobFilter::default());
    let found = server.store.jobs(collection(), all, page, SCAN_MAX).await.unwrap();
    let record = found.jobs.first().unwrap();
    for number in 0..JOBS {
        copy(&server, record, number, is_needle(number).then_some("a needle")).await;
    }
    server
}

/// The names of a page and its `nextLink`.
fn page(body: &str) -> (Vec<String>, Option<String>) {
    let member = |json: &Json<'_>, name: &str| match json {
        Json::Object(members) => {
            members.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone().into_owned())
        }
        _ => None,
    };
    let text = |json: Option<Json<'static>>| match json {
        Some(Json::String(text)) => Some(text.into_owned()),
        _ => None,
    };
    let body = Json::parse_up_to(body.as_bytes(), 10_000).unwrap();
    let Some(Json::Array(list)) = member(&body, "value") else { panic!("no list: {body}") };
    let name = |job: &Json<'_>| text(member(job, "name")).unwrap().replace("jc/", "");
    (list.iter().map(name).collect(), text(member(&body, "nextLink")))
}

/// The names on each page of a search.
async fn search(server: &Server, query: &str) -> Vec<Vec<String>> {
    let mut path = format!("{}&{query}", jobs(""));
    let mut pages = Vec::new();
    loop {
        let (names, next) = page(&send(server.address, "GET", &path, "").await);
        pages.push(names);
        let Some(next) = next else { return pages };
        let host = "http://localhost";
        path = next.strip_prefix(host).unwrap_or_else(|| panic!("{next}")).to_owned();
    }
}

#[tokio::test]
async fn a_search_continues_over_short_pages_and_finds_every_match_once() {
    let server = haystack(|number| number % 700 == 3).await;
    let expected: Vec<_> = (0..JOBS).filter(|number| number % 700 == 3).map(name).collect();
    let found = search(&server, "$filter=contains(name,'needle')").await;
    assert_eq!(found.concat(), expected);
    let counts: Vec<_> = found.iter().map(Vec::len).collect();
    assert_eq!(counts, [8, 7, 0], "short pages with a nextLink, and the last page");
    // Full pages end before a scan does.
    let found = search(&server, "$filter=contains(name,'needle')&$top=3").await;
    assert_eq!(found.concat(), expected);
    assert!(found.iter().all(|names| names.len() <= 3), "{found:?}");
}

#[tokio::test]
async fn pages_without_a_match_have_a_next_link() {
    let server = haystack(|number| number == JOBS - 1).await;
    let found = search(&server, "$filter=contains(name,'needle')").await;
    assert_eq!(found, [vec![], vec![], vec![name(JOBS - 1)]]);
    assert_eq!(search(&server, "$filter=contains(name,'nothing')").await.concat(), [""; 0]);
}

/// The names on each page of a search of all collections, and the counts of its first page.
async fn search_all(server: &Server, query: &str) -> Vec<Vec<String>> {
    let mut path = format!("/api/jobs?{query}");
    let mut pages = Vec::new();
    loop {
        let (names, next) = page(&send(server.address, "GET", &path, "").await);
        pages.push(names);
        let Some(next) = next else { return pages };
        path = next.strip_prefix("http://localhost").unwrap().to_owned();
    }
}

#[tokio::test]
async fn a_search_of_all_collections_finds_every_match_once() {
    let server = haystack(|number| number % 700 == 3).await;
    let expected: Vec<_> = (0..JOBS).filter(|number| number % 700 == 3).map(name).collect();
    for limit in [1, 3, 100] {
        let found = search_all(&server, &format!("search=NEEDLE&limit={limit}")).await;
        assert_eq!(found.concat(), expected, "{limit}");
        assert!(found.iter().all(|names| names.len() <= limit), "{found:?}");
    }
    assert_eq!(search_all(&server, "search=nothing").await.concat(), [""; 0]);
    let all = search_all(&server, "limit=100").await;
    assert_eq!(all.len(), JOBS.div_ceil(100), "a list without a search has full pages");
    assert_eq!(all.concat(), (0..JOBS).map(name).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_search_counts_up_to_a_thousand_matches() {
    let server = haystack(|number| number == 1).await;
    let body = send(server.address, "GET", "/api/jobs?search=example.com&limit=1", "").await;
    let counts = r#""counts":{"all":{"count":1000,"more":true},"enabled":{"count":1000,"more":true},"disabled":{"count":0,"more":true}"#;
    assert!(body.contains(counts), "{body}");
}

/// Of a collection that is large enough for the index of the node.
#[tokio::test]
async fn a_job_edited_on_this_node_is_found_by_its_new_text_at_once() {
    let server = haystack(|number| number == 7).await;
    let (page_of_first, all) = (Page::first(1), JobFilter::default());
    let found = server.store.jobs(collection(), all, page_of_first, SCAN_MAX).await.unwrap();
    let record = found.jobs.first().unwrap();
    // A search uses the index if it does not find an edit in the store that the node did not make.
    let mut probes = 0;
    loop {
        let probe = format!("probe {probes}.");
        copy(&server, record, 9, Some(&probe)).await;
        if search_all(&server, &format!("search=probe%20{probes}.")).await.concat().is_empty() {
            break;
        }
        probes += 1;
    }
    let found = async |text: &str| search_all(&server, &format!("search={text}")).await.concat();
    assert_eq!(found("needle").await, [name(7)]);
    let patch = r#"{"properties":{"description":"a haystack","action":{"request":{"uri":"http://straw.example/"}}}}"#;
    send(server.address, "PATCH", &jobs(&format!("/{}", name(7))), patch).await;
    assert_eq!(found("haystack").await, [name(7)]);
    assert_eq!(found("straw.example").await, [name(7)]);
    assert_eq!(found("needle").await, [""; 0], "the text of before");
    let again = r#"{"properties":{"description":"a needle"}}"#;
    send(server.address, "PATCH", &jobs(&format!("/{}", name(7))), again).await;
    assert_eq!(found("needle").await, [name(7)], "once");
    send(server.address, "DELETE", &jobs(&format!("/{}", name(7))), "").await;
    assert_eq!(found("needle").await, [""; 0]);
}
