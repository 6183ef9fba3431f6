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
pub(crate) async fn read(api: &dyn Api, target: &str) -> Result<Data, ApiFailure> {
    let answer = api.get(target).await;
    let data = Data(serde_json::from_slice(&answer.body).unwrap_or_default());
    match answer.status {
        200..300 => Ok(data),
        status => {
            let message = data.text("error.message");
            let message =
                if message.is_empty() { format!("The server answered {status}") } else { message };
            Err(ApiFailure { status, message })
        }
    }
}

/// JSON of the API. Members are named by their path, such as `properties.recurrence.frequency`;
/// an absent one reads as empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Data(pub(crate) Value);

impl Data {
    fn value(&self, path: &str) -> Option<&Value> {
        let path = path.split('.').filter(|name| !name.is_empty());
        path.into_iter().try_fold(&self.0, |value, name| value.get(name)).filter(|v| !v.is_null())
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.value(path).is_some()
    }

    pub(crate) fn get(&self, path: &str) -> Data {
        Data(self.value(path).cloned().unwrap_or_default())
    }

    /// A text; numbers and truth values as they are written in JSON.
    pub(crate) fn text(&self, path: &str) -> String {
        match self.value(path) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => String::new(),
        }
    }

    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        self.value(path)?.as_f64()
    }

    pub(crate) fn integer(&self, path: &str) -> u64 {
        self.value(path).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(crate) fn is_true(&self, path: &str) -> bool {
        self.value(path).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn time(&self, path: &str) -> Option<Instant> {
        self.value(path)?.as_str()?.parse().ok()
    }

    pub(crate) fn list(&self, path: &str) -> Vec<Data> {
        let list = self.value(path).and_then(Value::as_array);
        list.map(|list| list.iter().cloned().map(Data).collect()).unwrap_or_default()
    }

    /// Names and values of an object.
    pub(crate) fn members(&self, path: &str) -> Vec<(String, Data)> {
        let object = self.value(path).and_then(Value::as_object);
        let member = |(name, value): (&String, &Value)| (name.clone(), Data(value.clone()));
        object.map(|object| object.iter().map(member).collect()).unwrap_or_default()
    }

    /// The JSON with line breaks and indentation.
    pub(crate) fn pretty(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default()
    }
}
