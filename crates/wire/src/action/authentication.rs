//! Authentication of HTTP requests.
//!
//! The old versions accept incomplete authentication, because their clients send it. Client
//! certificates are parsed by the caller.

use kalends_domain::{
    CertificateFacts, HttpAuthentication, Secret, ValidationError, ValidationErrorKind,
    check_audience, check_tenant,
};

use crate::enum_text::EnumText;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node, Strictness};
use crate::object::ObjectBuilder;
use crate::write_options::WriteOptions;

#[derive(Clone, Copy)]
enum Kind {
    NotSpecified,
    ClientCertificate,
    ActiveDirectoryOAuth,
    Basic,
}

const KINDS: &EnumText<Kind> = &[
    ("Basic", Kind::Basic),
    ("ClientCertificate", Kind::ClientCertificate),
    ("ActiveDirectoryOAuth", Kind::ActiveDirectoryOAuth),
    ("NotSpecified", Kind::NotSpecified),
];

/// Members of all authentication types.
const PARTS: [&str; 7] =
    ["username", "password", "pfx", "tenant", "audience", "clientId", "secret"];

const CLIENT_ID_CHARS_MAX: usize = 256;

pub(super) fn read(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<HttpAuthentication> {
    let node = node.with_code(ErrorCode::InvalidAuthentication);
    if !node.is_object(errors) {
        return None;
    }
    let Some(kind) = node.member("type") else {
        let allowed: Vec<_> = KINDS.iter().map(|(word, _)| *word).collect();
        let expected = format!("allowed are {}", allowed.join(", "));
        node.missing("type", ErrorCode::InvalidAuthentication, expected, errors);
        return None;
    };
    match kind.enum_value(KINDS.iter().copied(), errors)? {
        Kind::NotSpecified => {
            for part in PARTS.iter().filter_map(|name| node.member(name)) {
                part.reject_any("requires a type other than NotSpecified", errors);
            }
            None
        }
        Kind::Basic => Some(HttpAuthentication::Basic {
            username: part(node, "username", check_username, context, errors),
            password: node.required_secret("password", context, errors),
        }),
        Kind::ClientCertificate => Some(HttpAuthentication::ClientCertificate {
            pfx: pfx(node, context, errors),
            password: node.required_secret("password", context, errors),
            certificate: None,
        }),
        Kind::ActiveDirectoryOAuth => Some(HttpAuthentication::ActiveDirectoryOAuth {
            tenant: part(node, "tenant", check_tenant, context, errors),
            audience: part(node, "audience", check_audience, context, errors),
            client_id: part(node, "clientId", check_client_id, context, errors),
            secret: node.required_secret("secret", context, errors),
        }),
    }
}

fn part(
    node: Node<'_>,
    name: &str,
    check: fn(&str) -> Result<(), ValidationError>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<String> {
    match node.member(name) {
        Some(node) => node.checked(check, errors),
        None => {
            if context.strictness == Strictness::Complete {
                let expected = "this type of authentication requires it";
                node.missing(name, ErrorCode::InvalidAuthentication, expected, errors);
            }
            None
        }
    }
}

fn pfx(node: Node<'_>, context: Context<'_>, errors: &mut ErrorDetails) -> Option<Secret> {
    let pfx = node.required_secret("pfx", context, errors)?;
    let max = context.limits.pfx_bytes_max;
    // Four characters of base64 encode three bytes.
    if pfx.reveal().len() / 4 * 3 > max {
        let path = node.path.member("pfx").to_string();
        let message = format!("must be a file of at most {max} bytes");
        errors.add(ErrorCode::InvalidClientCertificate, path, message);
    }
    Some(pfx)
}

fn check_username(text: &str) -> Result<(), ValidationError> {
    // A colon separates name and password in the Basic scheme.
    let valid = !text.contains(|c: char| c == ':' || c.is_control());
    let message = "must not contain colons or control characters";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidAuthentication, message))
}

fn check_client_id(text: &str) -> Result<(), ValidationError> {
    let valid = (1..=CLIENT_ID_CHARS_MAX).contains(&text.chars().count())
        && !text.contains(char::is_control);
    let message =
        format!("must have 1 to {CLIENT_ID_CHARS_MAX} characters and no control characters");
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidAuthentication, message))
}

pub(super) fn write(authentication: &HttpAuthentication, options: WriteOptions) -> Json<'_> {
    let (members, kind) = match authentication {
        HttpAuthentication::Basic { username, password } => {
            let members = ObjectBuilder::new()
                .put_some("username", username.as_deref())
                .put_some("password", options.secret(password));
            (members, "Basic")
        }
        HttpAuthentication::ClientCertificate { pfx, password, certificate } => {
            let members = write_certificate(certificate.as_ref())
                .put_some("pfx", options.secret(pfx))
                .put_some("password", options.secret(password));
            (members, "ClientCertificate")
        }
        HttpAuthentication::ActiveDirectoryOAuth { tenant, audience, client_id, secret } => {
            let members = ObjectBuilder::new()
                .put_some("tenant", tenant.as_deref())
                .put_some("audience", audience.as_deref())
                .put_some("clientId", client_id.as_deref())
                .put_some("secret", options.secret(secret));
            (members, "ActiveDirectoryOAuth")
        }
    };
    members.put("type", kind).into()
}

/// Writes the expiration under two names: one appears in responses of the retired service, the other
/// in its documentation.
fn write_certificate(certificate: Option<&CertificateFacts>) -> ObjectBuilder<'_> {
    ObjectBuilder::new()
        .put_some("certificateThumbprint", certificate.map(|facts| &facts.thumbprint))
        .put_some("certificateExpiration", certificate.map(|facts| facts.expiration))
        .put_some("certificateExpirationDate", certificate.map(|facts| facts.expiration))
        .put_some("certificateSubjectName", certificate.map(|facts| &facts.subject_name))
}
