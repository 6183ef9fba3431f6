//! The tables contain no secrets in plain text.

use kalends_domain::{
    ErrorAction, Headers, HttpAuthentication, Limits, MessageFormat, Secret,
    ServiceBusAuthentication, ServiceBusMessage, StorageQueueMessage, Target,
};
use kalends_store::postgres::PostgresStore;
use kalends_store::{AdminStore, ApiStore, StoreError};

use super::database::{TestDatabase, codec, settings};
use super::sample::{action, job_path, put, put_collection, put_job, request, standard};
use super::with_server;

fn canary(member: &str) -> Option<Secret> {
    Some(Secret::new(format!("canary-{member}")))
}

fn headers() -> Headers {
    let named = ["Authorization", "cookie", "X-Api-Key"];
    let headers = named.map(|name| (name.to_owned(), format!("canary-{name}")));
    Headers::new(headers.into(), &Limits::default()).unwrap()
}

/// Targets with a canary in every secret member.
fn targets() -> Vec<Target> {
    let basic = HttpAuthentication::Basic { username: None, password: canary("password") };
    let certificate = HttpAuthentication::ClientCertificate {
        pfx: canary("pfx"),
        password: canary("pfx-password"),
        certificate: None,
    };
    let directory = HttpAuthentication::ActiveDirectoryOAuth {
        tenant: None,
        audience: None,
        client_id: None,
        secret: canary("secret"),
    };
    let mut targets = Vec::new();
    for (uri, authentication) in [
        ("https://example.com/?a=b&sig=canary-sig", basic),
        ("https://example.com/?CODE=canary-code", certificate),
        ("https://example.com/", directory),
    ] {
        let mut request = request(uri);
        (request.headers, request.authentication) =
            (Some(headers()), Some(Box::new(authentication)));
        targets.push(Target::Http(request));
    }
    targets.push(Target::StorageQueue(StorageQueueMessage {
        storage_account: None,
        queue_name: None,
        sas_token: canary("sas-token"),
        message: None,
        format: MessageFormat::Raw,
    }));
    let message = ServiceBusMessage {
        entity: None,
        namespace: None,
        transport: None,
        authentication: Some(ServiceBusAuthentication {
            kind: None,
            sas_key_name: None,
            sas_key: canary("sas-key"),
        }),
        message: None,
        brokered: None,
        custom: None,
    };
    targets.push(Target::ServiceBusQueue(message.clone()));
    targets.push(Target::ServiceBusTopic(message));
    targets
}

/// All rows of all tables as text.
async fn dump(database: &TestDatabase) -> String {
    let client = database.client().await;
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
    let mut dump = String::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let rows = client.query(&format!("SELECT t::text FROM \"{table}\" t"), &[]).await.unwrap();
        for row in rows {
            dump += &format!("{table}: {}\n", row.get::<_, String>(0));
        }
    }
    dump
}

#[test]
fn no_canary_is_in_any_table() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        put_collection(&store, "c", standard()).await;
        for (number, target) in targets().into_iter().enumerate() {
            let mut put = put(None);
            put.definition.action.action = action(target.clone());
            let error = ErrorAction { action: action(target), retry: None };
            put.definition.action.error_action = Some(Box::new(error));
            let name = format!("j{number}");
            let created = put_job(&store, &name, put.clone()).await;
            assert_eq!(created.job.definition, put.definition);
            let (read, _) = store.job(job_path(&name)).await.unwrap().unwrap();
            assert_eq!(read.job.definition, put.definition, "decrypted");
        }
        let dump = dump(&database).await;
        let hits: Vec<_> =
            dump.lines().filter(|line| line.to_lowercase().contains("canary")).collect();
        assert_eq!(hits, [""; 0]);
        assert_eq!(dump.lines().filter(|line| line.starts_with("jobs: ")).count(), 6);
        // The canary in hexadecimal and base64.
        for encoded in ["63616e617279", "Y2FuYXJ5"] {
            assert!(!dump.contains(encoded), "{encoded}");
        }
    });
}

#[test]
fn another_key_is_refused_and_ciphertexts_cannot_be_moved_to_another_job() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        put_collection(&store, "c", standard()).await;
        for (name, uid) in [("a", 1), ("b", 2)] {
            let mut put = put(None);
            put.uid = kalends_store::record::JobUid([uid; 16]);
            put.definition.action.action = action(targets().remove(0));
            put_job(&store, name, put).await;
        }
        let other = PostgresStore::connect(&database.url, settings(), codec(2)).await;
        let Err(StoreError::Key(message)) = other else { panic!("{other:?}") };
        assert!(message.contains("another key"), "{message}");

        let moved = "UPDATE jobs SET definition = (SELECT definition FROM jobs WHERE name = 'a')
             WHERE name = 'b'";
        assert_eq!(database.client().await.execute(moved, &[]).await.unwrap(), 1);
        let read = store.job(job_path("b")).await;
        assert!(matches!(read, Err(StoreError::Unreadable(_))), "{read:?}");
        assert_eq!(store.check().await.unwrap().len(), 1);
        assert_eq!(
            store.job(job_path("a")).await.unwrap().unwrap().0.job.definition.action.action,
            action(targets().remove(0))
        );
    });
}
