//! Reading and serialising HTTP requests.

use kalends_domain::{Headers, HttpAuthentication, HttpRequest, Method, Uri};

use super::authentication;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node, Strictness};
use crate::object::{ObjectBuilder, map};
use crate::write_options::WriteOptions;

pub(super) fn read(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<HttpRequest> {
    let uri = read_uri(node, context, errors);
    let method = read_method(node, errors);
    let headers = node.member("headers").and_then(|node| read_headers(node, context, errors));
    let body_max = context.limits.body_chars_max;
    let body = node.member("body").and_then(|node| {
        node.text(errors)?;
        node.with_code(ErrorCode::BodyTooLarge).text_within(body_max, errors)
    });
    let authentication_node = node.member("authentication");
    let authentication =
        authentication_node.and_then(|node| authentication::read(node, context, errors));
    let is_certificate =
        matches!(authentication, Some(HttpAuthentication::ClientCertificate { .. }));
    let is_plain = uri.as_ref().is_some_and(|uri| !uri.is_https());
    if context.strictness == Strictness::Complete && is_certificate && is_plain {
        let path = node.path.member("authentication").to_string();
        let message =
            "must not be ClientCertificate for an http URI; a client certificate requires https";
        errors.add(ErrorCode::InvalidAuthentication, path, message);
    }
    let authentication = authentication.map(Box::new);
    Some(HttpRequest { uri: uri?, method: method?, headers, body, authentication })
}

fn read_uri(node: Node<'_>, context: Context<'_>, errors: &mut ErrorDetails) -> Option<Uri> {
    let Some(node) = node.member("uri") else {
        let expected = "a request has an absolute URI such as https://example.com/path";
        node.missing("uri", ErrorCode::InvalidUri, expected, errors);
        return None;
    };
    let node = node.with_code(ErrorCode::InvalidUri);
    let uri = Uri::new(node.text(errors)?, context.limits);
    uri.map_err(|error| node.add_error(&error, errors)).ok()
}

fn read_method(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Method> {
    let Some(node) = node.member("method") else {
        node.missing(
            "method",
            ErrorCode::InvalidHttpMethod,
            "a request has a method such as GET or POST",
            errors,
        );
        return None;
    };
    let node = node.with_code(ErrorCode::InvalidHttpMethod);
    let method = Method::new(node.text(errors)?);
    method.map_err(|error| node.add_error(&error, errors)).ok()
}

fn read_headers(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<Headers> {
    let node = node.with_code(ErrorCode::InvalidHeader);
    let headers = Headers::new(node.map(errors)?, context.limits);
    headers
        .map_err(|error| {
            let path = match &error.name {
                Some(name) => node.path.member(name).to_string(),
                None => node.path.to_string(),
            };
            errors.add(error.error.kind.into(), path, error.error.to_string());
        })
        .ok()
}

pub(super) fn write(request: &HttpRequest, options: WriteOptions) -> Json<'_> {
    ObjectBuilder::new()
        .put("uri", request.uri.as_str())
        .put("method", request.method.as_str())
        .put_some("headers", request.headers.as_ref().map(|headers| map(headers.iter())))
        .put_some("body", request.body.as_deref())
        .put_some(
            "authentication",
            request
                .authentication
                .as_ref()
                .map(|authentication| authentication::write(authentication, options)),
        )
        .into()
}
