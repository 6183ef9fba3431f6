//! Secrets that an edit keeps: `"${stored}"` in place of a secret, and secrets that a patch does not
//! send.
//!
//! An edit keeps a secret only for the recipient that it was given for. Otherwise a caller who may
//! edit a job, but cannot read its secrets, could have them sent to a host of their choice.

use std::borrow::Cow;

use kalends_domain::{
    Action, Headers, HttpAuthentication, HttpRequest, JobDefinition, Limits, Secret, SecretHeaders,
    ServiceBusMessage, Target, Uri, is_secret_parameter,
};

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::job::job_with_secrets;
use crate::json::Json;
use crate::version::Version;

/// The value of a secret that stands for the stored one, in the newest version.
pub const STORED: &str = "${stored}";

/// Whether a body may hold the placeholder for a stored secret.
pub fn has_stored_placeholder(body: &Json<'_>) -> bool {
    match body {
        Json::String(text) => text.contains(STORED),
        Json::Array(values) => values.iter().any(has_stored_placeholder),
        Json::Object(members) => members.iter().any(|(_, value)| has_stored_placeholder(value)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Replaces the placeholders of a definition by the stored secrets. It is an error if there is no
/// stored secret, or if it belongs to another recipient.
pub fn keep_stored_secrets(
    stored: Option<&JobDefinition>,
    edited: &mut JobDefinition,
    limits: &Limits,
    secret_headers: &SecretHeaders,
) -> Result<(), ErrorDetails> {
    let mut stored = stored.cloned();
    let as_read = edited.clone();
    let mut errors = ErrorDetails::default();
    for place in Place::ALL {
        let Some(edited) = place.action(edited) else { continue };
        let stored = stored.as_mut().and_then(|stored| place.action(stored));
        keep_in_action(place, stored, edited, (limits, secret_headers), &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(stored) = &stored {
        keep_certificates(stored, edited);
    }
    let bytes = job_with_secrets(edited, Version::V2026_11_01).compact_bytes();
    let max = limits.job_bytes_max;
    // The definition as it was read, and the stored one, were accepted before.
    let is_new = *edited != as_read && stored.as_ref() != Some(edited);
    if bytes > max && is_new {
        let message =
            format!("The job must have at most {max} bytes with its secrets (found {bytes})");
        return Err(ErrorDetails::one(ErrorCode::JobTooLarge, "", message));
    }
    Ok(())
}

/// Rejects a patched definition that has a stored secret, not sent with the patch, for another
/// recipient. `patch` has its members in their documented positions.
pub(crate) fn check_kept_secrets(
    stored: &JobDefinition,
    patched: &JobDefinition,
    patch: &Json<'_>,
    secret_headers: &SecretHeaders,
) -> Result<(), ErrorDetails> {
    let (mut stored, mut patched) = (stored.clone(), patched.clone());
    let mut errors = ErrorDetails::default();
    for place in Place::ALL {
        let (Some(stored), Some(patched)) = (place.action(&mut stored), place.action(&mut patched))
        else {
            continue;
        };
        let kept = |path: &[&str]| !is_sent(patch, place.path().iter().chain(path));
        let before = secret_members(stored);
        for member in secret_members(patched) {
            let is_same = |before: &SecretMember<'_>| {
                before.path == member.path && before.recipient == member.recipient
            };
            let is_moved = !before.iter().any(is_same);
            if member.value.is_some() && is_moved && kept(member.path) {
                place.reject(member.path, OTHER_RECIPIENT, &mut errors);
            }
        }
        let (Target::Http(stored), Target::Http(patched)) = (&stored.target, &patched.target)
        else {
            continue;
        };
        if stored.uri.origin() != patched.uri.origin() {
            let headers = patched.headers.iter().flat_map(Headers::iter);
            for (name, _) in headers.filter(|(name, _)| secret_headers.contains(name)) {
                let path = ["request", "headers", name];
                if kept(&path) {
                    place.reject(&path, OTHER_RECIPIENT, &mut errors);
                }
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

const NOT_STORED: &str = "has no stored value; send the secret itself";
const OTHER_RECIPIENT: &str = "is stored for another recipient (scheme, host, port, storage account, \
    namespace or tenant); send the secret again";

/// The position of an action in a definition.
#[derive(Clone, Copy)]
enum Place {
    Main,
    Error,
}

impl Place {
    const ALL: [Place; 2] = [Place::Main, Place::Error];

    fn action(self, job: &mut JobDefinition) -> Option<&mut Action> {
        match self {
            Place::Main => Some(&mut job.action.action),
            Place::Error => job.action.error_action.as_mut().map(|error| &mut error.action),
        }
    }

    fn path(self) -> &'static [&'static str] {
        match self {
            Place::Main => &["properties", "action"],
            Place::Error => &["properties", "action", "errorAction"],
        }
    }

    /// Adds the error of a secret that the definition does not have.
    fn reject(self, path: &[&str], problem: &str, errors: &mut ErrorDetails) {
        let path = [self.path(), path].concat().join(".");
        errors.add(ErrorCode::MissingSecret, path, problem);
    }
}

/// A secret member of an action.
struct SecretMember<'a> {
    /// Below the action.
    path: &'static [&'static str],
    /// The kind of authentication and the party that receives the secret.
    recipient: String,
    value: &'a mut Option<Secret>,
}

fn secret_members(action: &mut Action) -> Vec<SecretMember<'_>> {
    match &mut action.target {
        Target::Http(request) => secrets_of_http(request),
        Target::StorageQueue(message) => vec![SecretMember {
            path: &["queueMessage", "sasToken"],
            recipient: lower_case(&message.storage_account),
            value: &mut message.sas_token,
        }],
        Target::ServiceBusQueue(message) => {
            secrets_of_service_bus(&["serviceBusQueueMessage", "authentication", "sasKey"], message)
        }
        Target::ServiceBusTopic(message) => {
            secrets_of_service_bus(&["serviceBusTopicMessage", "authentication", "sasKey"], message)
        }
    }
}

fn secrets_of_http(request: &mut HttpRequest) -> Vec<SecretMember<'_>> {
    const PASSWORD: &[&str] = &["request", "authentication", "password"];
    let origin = request.uri.origin();
    match request.authentication.as_deref_mut() {
        Some(HttpAuthentication::Basic { password, .. }) => {
            let recipient = format!("Basic {origin}");
            vec![SecretMember { path: PASSWORD, recipient, value: password }]
        }
        Some(HttpAuthentication::ClientCertificate { pfx, password, .. }) => {
            let recipient = format!("ClientCertificate {origin}");
            let file = SecretMember {
                path: &["request", "authentication", "pfx"],
                recipient: recipient.clone(),
                value: pfx,
            };
            vec![file, SecretMember { path: PASSWORD, recipient, value: password }]
        }
        // The tenant receives the secret, the origin receives the token.
        Some(HttpAuthentication::ActiveDirectoryOAuth { tenant, secret, .. }) => {
            vec![SecretMember {
                path: &["request", "authentication", "secret"],
                recipient: format!("ActiveDirectoryOAuth {} {origin}", lower_case(tenant)),
                value: secret,
            }]
        }
        None => vec![],
    }
}

fn secrets_of_service_bus<'a>(
    path: &'static [&'static str],
    message: &'a mut ServiceBusMessage,
) -> Vec<SecretMember<'a>> {
    let recipient = lower_case(&message.namespace);
    let authentication = message.authentication.iter_mut();
    let member = |value| SecretMember { path, recipient: recipient.clone(), value };
    authentication.map(|authentication| member(&mut authentication.sas_key)).collect()
}

fn lower_case(name: &Option<String>) -> String {
    name.as_deref().unwrap_or_default().to_ascii_lowercase()
}

fn keep_in_action(
    place: Place,
    mut stored: Option<&mut Action>,
    edited: &mut Action,
    (limits, secret_headers): (&Limits, &SecretHeaders),
    errors: &mut ErrorDetails,
) {
    let before = stored.as_deref_mut().map(secret_members).unwrap_or_default();
    for member in secret_members(edited) {
        if member.value.as_ref().is_none_or(|secret| secret.reveal() != STORED) {
            continue;
        }
        let found = before.iter().find(|before| before.path == member.path);
        match found.and_then(|found| Some((found, found.value.as_ref()?))) {
            None => place.reject(member.path, NOT_STORED, errors),
            Some((found, _)) if found.recipient != member.recipient => {
                place.reject(member.path, OTHER_RECIPIENT, errors);
            }
            Some((_, value)) => *member.value = Some(value.clone()),
        }
    }
    let Target::Http(edited) = &mut edited.target else { return };
    let stored = match stored.map(|stored| &stored.target) {
        Some(Target::Http(stored)) => Some(stored),
        _ => None,
    };
    let is_same_origin = stored.is_some_and(|stored| stored.uri.origin() == edited.uri.origin());
    let mut keep = |path: &[&str], value: Option<&str>| match value {
        None => place.reject(path, NOT_STORED, errors),
        Some(_) if !is_same_origin => place.reject(path, OTHER_RECIPIENT, errors),
        Some(_) => {}
    };
    keep_headers(stored, edited, secret_headers, &mut keep);
    keep_parameters(stored, edited, &mut keep);
    check_limits(place, edited, limits, errors);
}

/// Replaces placeholders in secret headers. `check` receives the path and the stored value of each.
fn keep_headers(
    stored: Option<&HttpRequest>,
    edited: &mut HttpRequest,
    secret_headers: &SecretHeaders,
    check: &mut impl FnMut(&[&str], Option<&str>),
) {
    let Some(headers) = &mut edited.headers else { return };
    let stored = stored.and_then(|stored| stored.headers.as_ref());
    let value_of = |name: &str| {
        let mut all = stored.into_iter().flat_map(Headers::iter);
        all.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let kept = headers.iter().map(|(name, value)| {
        let is_placeholder = value == STORED && secret_headers.contains(name);
        let value = match is_placeholder {
            true => {
                let stored = value_of(name);
                check(&["request", "headers", name], stored);
                stored.unwrap_or(STORED)
            }
            false => value,
        };
        (name.to_owned(), value.to_owned())
    });
    *headers = Headers::restore(kept.collect());
}

/// Replaces placeholders in secret query parameters of the URI.
fn keep_parameters(
    stored: Option<&HttpRequest>,
    edited: &mut HttpRequest,
    check: &mut impl FnMut(&[&str], Option<&str>),
) {
    let text = edited.uri.as_str();
    let (rest, fragment) = match text.split_once('#') {
        Some((rest, fragment)) => (rest, Some(fragment)),
        None => (text, None),
    };
    let Some((base, query)) = rest.split_once('?') else { return };
    let mut unused: Vec<_> =
        stored.map(|stored| secret_parameters(stored.uri.as_str())).unwrap_or_default();
    let parameters = query.split('&').map(|parameter| {
        let pair = parameter.split_once('=').filter(|(name, _)| is_secret_parameter(name));
        let Some((name, value)) = pair else { return Cow::Borrowed(parameter) };
        // The second parameter of a name stands for the second stored one.
        let stored = unused.iter().position(|(other, _)| other.eq_ignore_ascii_case(name));
        let stored = stored.map(|position| unused.remove(position).1);
        if value != STORED {
            return Cow::Borrowed(parameter);
        }
        check(&["request", "uri"], stored);
        Cow::Owned(format!("{name}={}", stored.unwrap_or(STORED)))
    });
    let mut kept = format!("{base}?{}", parameters.collect::<Vec<_>>().join("&"));
    if let Some(fragment) = fragment {
        kept.push('#');
        kept.push_str(fragment);
    }
    edited.uri = Uri::restore(kept);
}

/// Names and values of the secret query parameters of a URI.
fn secret_parameters(uri: &str) -> Vec<(&str, &str)> {
    let rest = uri.split_once('#').map_or(uri, |(rest, _)| rest);
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter_map(|parameter| parameter.split_once('='));
    pairs.filter(|(name, _)| is_secret_parameter(name)).collect()
}

/// Checks the limits again: stored values may be longer than their placeholders.
fn check_limits(place: Place, request: &HttpRequest, limits: &Limits, errors: &mut ErrorDetails) {
    let path = |member: &str| format!("{}.request.{member}", place.path().join("."));
    if let Err(error) = Uri::new(request.uri.as_str(), limits) {
        errors.add(error.kind.into(), path("uri"), error.to_string());
    }
    let headers = request.headers.iter().flat_map(Headers::iter);
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Err(error) = Headers::new(headers, limits) {
        errors.add(error.error.kind.into(), path("headers"), error.error.to_string());
    }
}

/// Whether a patch sends the member with this path. Names are case-insensitive.
fn is_sent<'p>(patch: &Json<'_>, mut path: impl Iterator<Item = &'p &'p str>) -> bool {
    let Some(name) = path.next() else { return *patch != Json::Null };
    let Json::Object(members) = patch else { return false };
    let member = members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    member.is_some_and(|(_, value)| is_sent(value, path))
}

/// Keeps the data parsed from a client certificate if its file and password did not change.
pub(crate) fn keep_certificates(stored: &JobDefinition, edited: &mut JobDefinition) {
    keep_certificate(&stored.action.action, &mut edited.action.action);
    if let (Some(stored), Some(edited)) =
        (&stored.action.error_action, &mut edited.action.error_action)
    {
        keep_certificate(&stored.action, &mut edited.action);
    }
}

fn keep_certificate(stored: &Action, edited: &mut Action) {
    use HttpAuthentication::ClientCertificate;
    let (Target::Http(stored), Target::Http(edited)) = (&stored.target, &mut edited.target) else {
        return;
    };
    let (
        Some(ClientCertificate { pfx, password, certificate }),
        Some(ClientCertificate { pfx: new_pfx, password: new_password, certificate: slot }),
    ) = (stored.authentication.as_deref(), edited.authentication.as_deref_mut())
    else {
        return;
    };
    if pfx == new_pfx && password == new_password {
        slot.clone_from(certificate);
    }
}
