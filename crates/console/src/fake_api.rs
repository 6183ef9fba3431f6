//! An API with fixed responses, for tests of pages.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::view::PageRequest;
use crate::{Page, Screen, respond};

/// Responses by path without query; other paths return 404.
#[derive(Default)]
pub(crate) struct FakeApi {
    responses: BTreeMap<String, Value>,
    /// Targets of the requests, in order.
    pub(crate) requested: Mutex<Vec<String>>,
}

impl FakeApi {
    /// An API whose caller may do everything.
    pub(crate) fn of_owner() -> FakeApi {
        let all = json!({"readJobs": true, "writeJobs": true, "runJobs": true, "pause": true});
        FakeApi::default().with("/api/me", json!({"permissions": all}))
    }

    pub(crate) fn with(mut self, path: &str, response: Value) -> FakeApi {
        self.responses.insert(path.to_owned(), response);
        self
    }

    /// The page of a path with its query, at noon of 2026-11-16 (UTC).
    pub(crate) async fn page(&self, target: &str) -> Page {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let parameters: Vec<_> = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
        let segments: Vec<String> = path.trim_start_matches('/').split('/').map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let request = PageRequest {
            path,
            parameters: &parameters,
            cookies: "",
            now: "2026-11-16T12:00:00Z".parse().unwrap(),
            version: "0",
            default_group: "/subscriptions/s/resourceGroups/g",
            secret_headers: &kalends_domain::SecretHeaders::default(),
            sign_in: crate::SignInMethod::None,
            is_cross_site: false,
        };
        respond(Screen::of(&segments).unwrap(), request, self).await
    }
}

impl Api for FakeApi {
    fn get<'a>(&'a self, target: &'a str) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        self.requested.lock().unwrap().push(target.to_owned());
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let answer = match self.responses.get(path) {
            Some(response) => Answer { status: 200, body: response.to_string().into_bytes() },
            None => Answer { status: 404, body: b"{}".to_vec() },
        };
        Box::pin(std::future::ready(answer))
    }
}
