//! The public API as pages use it, and its JSON.

use std::pin::Pin;

use kalends_recurrence::Instant;
use serde_json::Value;

/// The public REST API with the rights of the caller of a page.
pub trait Api: Sync {
    /// The response to a GET of a path with its query, such as `/api/jobs?search=a`.
    fn get<'a>(&'a self, target: &'a str) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// A response of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body; JSON, or empty.
    pub body: Vec<u8>,
}

/// An error of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiFailure {
    pub(crate) status: u16,
    pub(crate) message: String,
}

/// Reads a resource.
pub(crate) async fn read(api: &dyn Api, target: &str) -> Result<Value, ApiFailure> {
    Ok(serde_json::from_slice(&read_text(api, target).await?).unwrap_or_default())
}

/// Reads the JSON of a resource.
pub(crate) async fn read_text(api: &dyn Api, target: &str) -> Result<Vec<u8>, ApiFailure> {
    let answer = api.get(target).await;
    match answer.status {
        200..300 => Ok(answer.body),
        status => {
            let data: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let message = data.text("error.message");
            let message =
                if message.is_empty() { format!("The server answered {status}") } else { message };
            Err(ApiFailure { status, message })
        }
    }
}

/// Reads JSON of the API. Members are named by their path, such as `properties.recurrence.frequency`;
/// an absent one reads as empty.
pub(crate) trait Json {
    fn has(&self, path: &str) -> bool;
    fn member(&self, path: &str) -> &Value;
    /// A text; numbers and truth values as they are written in JSON.
    fn text(&self, path: &str) -> String;
    fn number(&self, path: &str) -> Option<f64>;
    fn integer(&self, path: &str) -> u64;
    fn is_true(&self, path: &str) -> bool;
    fn time(&self, path: &str) -> Option<Instant>;
    fn list(&self, path: &str) -> &[Value];
    /// Names and values of an object.
    fn members(&self, path: &str) -> impl Iterator<Item = (&str, &Value)>;
    /// The JSON with line breaks and indentation.
    fn pretty(&self) -> String;
}

impl Json for Value {
    fn has(&self, path: &str) -> bool {
        !self.member(path).is_null()
    }

    fn member(&self, path: &str) -> &Value {
        let mut names = path.split('.').filter(|name| !name.is_empty());
        names.try_fold(self, |value, name| value.get(name)).unwrap_or(&Value::Null)
    }

    fn text(&self, path: &str) -> String {
        match self.member(path) {
            Value::String(text) => text.clone(),
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            _ => String::new(),
        }
    }

    fn number(&self, path: &str) -> Option<f64> {
        self.member(path).as_f64()
    }

    fn integer(&self, path: &str) -> u64 {
        self.member(path).as_u64().unwrap_or(0)
    }

    fn is_true(&self, path: &str) -> bool {
        self.member(path).as_bool().unwrap_or(false)
    }

    fn time(&self, path: &str) -> Option<Instant> {
        self.member(path).as_str()?.parse().ok()
    }

    fn list(&self, path: &str) -> &[Value] {
        self.member(path).as_array().map_or(&[], Vec::as_slice)
    }

    fn members(&self, path: &str) -> impl Iterator<Item = (&str, &Value)> {
        let members = self.member(path).as_object().into_iter().flatten();
        members.map(|(name, value)| (name.as_str(), value))
    }

    fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
