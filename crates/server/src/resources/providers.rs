//! The resource provider and its operations. Clients query them with the API version of Azure Resource
//! Manager, so every version is accepted.

use http::StatusCode;
use kalends_domain::{Location, SubscriptionId};
use kalends_wire::{Json, Version};

use super::RequestContext;
use crate::response::ApiResponse;

pub(super) fn provider(subscription: &SubscriptionId) -> ApiResponse {
    let versions = || Json::Array(Version::ALL.iter().rev().map(|v| v.as_str().into()).collect());
    let locations = || Json::Array(Location::known().map(Json::from).collect());
    let resource = |name: &'static str, capabilities: Option<&'static str>| {
        let mut members = vec![
            ("resourceType".into(), name.into()),
            ("locations".into(), locations()),
            ("apiVersions".into(), versions()),
        ];
        members.extend(capabilities.map(|text| ("capabilities".into(), text.into())));
        Json::Object(members)
    };
    let moves = Some("CrossResourceGroupResourceMove, CrossSubscriptionResourceMove");
    let types = vec![
        resource("jobcollections", moves),
        resource("operations", None),
        resource("operationResults", None),
    ];
    let id = format!("/subscriptions/{subscription}/providers/Microsoft.Scheduler");
    let body = Json::Object(vec![
        ("id".into(), id.into()),
        ("namespace".into(), "Microsoft.Scheduler".into()),
        ("resourceTypes".into(), Json::Array(types)),
        ("registrationState".into(), "Registered".into()),
    ]);
    ApiResponse::json(StatusCode::OK, &body)
}

/// The tenant of every subscription: Kalends has no directory.
const TENANT: &str = "00000000-0000-0000-0000-000000000000";

/// The subscription that short paths use. Others work as well; they are not listed, because nobody
/// creates them.
pub(super) fn subscriptions(default: &SubscriptionId) -> ApiResponse {
    let list = Json::Array(vec![subscription_body(default)]);
    let body = Json::Object(vec![("value".into(), list)]);
    ApiResponse::json(StatusCode::OK, &body)
}

pub(super) fn subscription(id: &SubscriptionId) -> ApiResponse {
    ApiResponse::json(StatusCode::OK, &subscription_body(id))
}

fn subscription_body(id: &SubscriptionId) -> Json<'static> {
    let policies = vec![
        ("locationPlacementId".into(), "Public_2014-09-01".into()),
        ("quotaId".into(), "PayAsYouGo_2014-09-01".into()),
        ("spendingLimit".into(), "Off".into()),
    ];
    Json::Object(vec![
        ("id".into(), format!("/subscriptions/{id}").into()),
        ("subscriptionId".into(), id.to_string().into()),
        ("tenantId".into(), TENANT.into()),
        ("displayName".into(), "Kalends".into()),
        ("state".into(), "Enabled".into()),
        ("subscriptionPolicies".into(), Json::Object(policies)),
        ("authorizationSource".into(), "RoleBased".into()),
    ])
}

/// The endpoints that clients of Azure Resource Manager request first. All are those of this server,
/// which accepts its own tokens.
pub(super) fn endpoints(request: &RequestContext) -> ApiResponse {
    let server = request.server_url();
    let own = || Json::from(format!("{server}/"));
    let authentication =
        vec![("loginEndpoint".into(), own()), ("audiences".into(), Json::Array(vec![own()]))];
    let body = Json::Object(vec![
        ("galleryEndpoint".into(), own()),
        ("graphEndpoint".into(), own()),
        ("portalEndpoint".into(), own()),
        ("authentication".into(), Json::Object(authentication)),
    ]);
    ApiResponse::json(StatusCode::OK, &body)
}

/// Operations of the provider with their descriptions.
const OPERATIONS: [(&str, &str); 12] = [
    ("jobcollections/read", "Get a collection"),
    ("jobcollections/write", "Make or change a collection"),
    ("jobcollections/delete", "Delete a collection"),
    ("jobcollections/enable/action", "Enable a collection"),
    ("jobcollections/disable/action", "Disable a collection"),
    ("jobcollections/jobs/read", "Get a job"),
    ("jobcollections/jobs/write", "Make or change a job"),
    ("jobcollections/jobs/delete", "Delete a job"),
    ("jobcollections/jobs/run/action", "Run a job"),
    ("jobcollections/jobs/bulk/action", "Enable, disable or delete many jobs"),
    ("jobcollections/jobs/preview/action", "Try a definition without saving it"),
    ("jobcollections/jobs/jobhistories/read", "Get the history of a job"),
];

pub(super) fn operations() -> ApiResponse {
    let operation = |(name, description): &(&'static str, &'static str)| {
        let display = vec![
            ("provider".into(), "Microsoft.Scheduler".into()),
            ("description".into(), (*description).into()),
        ];
        Json::Object(vec![
            ("name".into(), format!("Microsoft.Scheduler/{name}").into()),
            ("display".into(), Json::Object(display)),
        ])
    };
    let list = Json::Array(OPERATIONS.iter().map(operation).collect());
    let body = Json::Object(vec![("value".into(), list), ("nextLink".into(), Json::Null)]);
    ApiResponse::json(StatusCode::OK, &body)
}
