//! The views for operators and the dump of a store.

use std::io;
use std::path::Path;

use kalends_environment::SystemClock;
use kalends_store::sqlite::{SqliteSettings, SqliteStore, dump, dump_to, inspect};
use kalends_store::{DumpError, StoreError};
use rusqlite::Connection;
use rusqlite::types::Value as Column;
use serde_json::{Map, Value, json};

use super::{codec, open};
use crate::block_on;
use crate::dump_sample::{expected, fill, normalize};

/// Reads all views of a file, as an operator would with SQL.
fn views(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut lines = Vec::new();
    for (kind, view) in [
        ("pause", "v_pause"),
        ("collection", "v_collections"),
        ("job", "v_jobs"),
        ("run", "v_runs"),
        ("history", "v_history"),
        ("ledger", "v_ledger"),
        ("note", "v_notes"),
    ] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let names: Vec<_> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut line = Map::from_iter([("kind".to_owned(), json!(kind))]);
            for (index, name) in names.iter().enumerate() {
                let value = match row.get_unwrap(index) {
                    Column::Null => Value::Null,
                    Column::Integer(number) => number.into(),
                    Column::Text(text) => text.into(),
                    other => panic!("{view}.{name}: {other:?}"),
                };
                line.insert(name.clone(), value);
            }
            lines.push(Value::Object(line));
        }
    }
    normalize(lines)
}

fn dump_lines(path: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut write = |line: &str| {
        lines.push(serde_json::from_str(line).unwrap());
        Ok(())
    };
    dump(path, codec(1), &mut write).unwrap();
    lines
}

/// A store that does not flush by itself for half a second after a write.
fn filled(path: &Path) -> SqliteStore {
    let store = open(path).unwrap();
    block_on(fill(&store));
    store
}

fn unflushed_runs(path: &Path) -> bool {
    let sql = "SELECT count(*) FROM runs";
    Connection::open(path).unwrap().query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap() == 0
}

#[test]
fn the_views_agree_with_the_api_after_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = filled(&path);
    block_on(store.flush()).unwrap();
    let expected = block_on(expected(&store, "\0"));
    for kind in ["pause", "collection", "job", "run", "history", "ledger", "note"] {
        let kind = format!("\"kind\":\"{kind}\"");
        assert!(expected.iter().any(|line| line.contains(&kind)), "{kind}");
    }
    assert_eq!(views(&path), expected);
}

#[test]
fn a_dump_agrees_with_the_api_before_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("kalends.db"), folder.path().join("copy.db"));
    // The store flushes when it is idle: a slow machine may need another attempt.
    for attempt in 0.. {
        let store = filled(&path);
        let expected = block_on(expected(&store, "\0"));
        let lines = dump_lines(&path);
        dump_to(&path, codec(1), &copy).unwrap();
        let unflushed = unflushed_runs(&path);
        assert_eq!(normalize(lines.clone()), expected);
        assert_eq!(views(&copy), expected);
        assert_eq!(inspect(&copy, &codec(1)).unwrap(), Vec::<String>::new());
        let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
        let mut order = kinds.clone();
        order.dedup();
        assert_eq!(order, ["pause", "collection", "job", "run", "history", "ledger", "note"]);
        if unflushed {
            break;
        }
        assert!(attempt < 20, "the store was always flushed before the dump");
        drop(store);
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn a_dumped_file_is_complete_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("kalends.db"), folder.path().join("copy.db"));
    let store = filled(&path);
    dump_to(&path, codec(1), &copy).unwrap();
    let again = dump_to(&path, codec(1), &copy);
    assert!(matches!(again, Err(StoreError::Failed(text)) if text.contains("exists already")));
    drop(store);
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("copy"))
        .collect();
    files.sort();
    assert_eq!(files, ["copy.db"], "the copy is a single file");
    // It is a store as well.
    let clock = std::sync::Arc::new(SystemClock);
    SqliteStore::open(&copy, SqliteSettings::default(), codec(1), clock).unwrap();
}

#[test]
fn a_dump_stops_when_its_output_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let _store = filled(&path);
    let mut write = |_: &str| Err(io::Error::from(io::ErrorKind::BrokenPipe));
    let stopped = dump(&path, codec(1), &mut write);
    assert!(matches!(stopped, Err(DumpError::Output(_))), "{stopped:?}");
    let wrong_key = dump(&path, codec(2), &mut |_| Ok(()));
    assert!(matches!(wrong_key, Err(DumpError::Store(StoreError::Key(_)))), "{wrong_key:?}");
}
