//! The list of notes of a caller who may read few of them.

use kalends_domain::{
    AccessScope, Collection, CollectionName, CollectionPath, CollectionState, Grant, Location,
    NewNote, NoteAuthor, NoteRecord, NoteText, Plan, Role,
};
use kalends_environment::SeededEntropy;
use kalends_recurrence::Instant;
use kalends_server::{
    AccessControl, AuditLog, Authentication, AuthenticationSettings, RateSettings,
};
use kalends_store::{
    ApiStore as _, CollectionContext, CollectionWrite, NewToken, TokenRecord, Tokens as _,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::catalogue::{Value, parse};
use crate::search::collection;
use crate::test_server::{Server, start_with_access};

/// Notes that a request examines.
const EXAMINED_MAX: usize = 5_000;

fn path(name: &str) -> CollectionPath {
    CollectionPath { collection: CollectionName::new(name).unwrap(), ..collection() }
}

async fn add_note(server: &Server, name: &str, text: &str) {
    let put = move |_: CollectionContext<'_>| {
        Ok(CollectionWrite::Put(Collection {
            location: Location::local(),
            tags: None,
            plan: Plan::Standard,
            state: CollectionState::Enabled,
            quota: None,
        }))
    };
    let author = NoteAuthor { id: "somebody".into(), name: None };
    let note = NewNote { author, text: NoteText::new(text).unwrap() };
    let edit = server.store.edit_collection_with_note(path(name), Box::new(put), Some(note));
    edit.await.unwrap();
}

/// A token of a reader of one collection.
async fn reader_of(server: &Server, name: &str) -> String {
    let NewToken { id, text, hash } = NewToken::generate(&SeededEntropy::new(7)).unwrap();
    let record = TokenRecord {
        id,
        name: "reader".to_owned(),
        hash,
        grant: Grant { role: Role::Reader, scope: AccessScope::Collection(path(name)) },
        created: Instant::MIN,
        expires: None,
        revoked: None,
        last_used: None,
    };
    assert!(server.store.put_token(record).await.unwrap());
    text.reveal().to_owned()
}

async fn get(server: &Server, token: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("Host: {}\r\nAuthorization: Bearer {token}", server.address);
    let request = format!("GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{response}");
    parse(body).unwrap()
}

/// The texts of each page.
async fn pages(server: &Server, token: &str) -> Vec<Vec<String>> {
    let mut path = "/api/notes?limit=2".to_owned();
    let mut pages = Vec::new();
    loop {
        let page = get(server, token, &path).await;
        let text = |note: &Value| note["note"].as_str().unwrap().to_owned();
        pages.push(page["value"].as_array().unwrap().iter().map(text).collect());
        let Some(next) = page["nextLink"].as_str() else { return pages };
        path = next[next.find("/api").unwrap()..].to_owned();
    }
}

#[tokio::test]
async fn a_page_examines_a_limited_number_of_notes_and_continues() {
    let access = AccessControl::with_tokens(
        Authentication::new(AuthenticationSettings::default()),
        RateSettings::default(),
        AuditLog::off(),
    );
    let server = start_with_access(access).await;
    for number in 0..3 {
        add_note(&server, "mine", &format!("old {number}")).await;
    }
    for number in 0..=EXAMINED_MAX / NoteRecord::PER_SUBJECT_MAX {
        for _ in 0..NoteRecord::PER_SUBJECT_MAX {
            add_note(&server, &format!("other{number}"), "of others").await;
        }
    }
    let token = reader_of(&server, "mine").await;
    let expected = [&[][..], &["old 2", "old 1"], &["old 0"]];
    assert_eq!(pages(&server, &token).await, expected, "the first page has examined the others");
    add_note(&server, "mine", "new").await;
    let expected = [&["new"][..], &["old 2", "old 1"], &["old 0"]];
    assert_eq!(pages(&server, &token).await, expected);
}
