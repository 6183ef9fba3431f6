//! Routes that PowerShell and the Azure CLI request before those of the scheduler.

use serde_json::Value;

use crate::test_server::TestServer;

#[test]
fn azure_tools_find_a_subscription_and_the_endpoints() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let mut get = |path: &str| -> Value {
        let response = connection.request("GET", path, None);
        assert_eq!(response.status, 200, "{path}: {response:?}");
        serde_json::from_str(&response.body).unwrap()
    };
    let default = "00000000-0000-0000-0000-000000000000";
    let all = get("/subscriptions?api-version=2016-06-01");
    assert_eq!(all["value"][0]["subscriptionId"], default, "{all}");
    assert_eq!(all["value"][0]["state"], "Enabled");
    let other = "6c55a6f0-6593-472f-9b3e-a51a9a757b40";
    let one = get(&format!("/subscriptions/{other}?api-version=2016-06-01"));
    assert_eq!(one["id"], format!("/subscriptions/{other}"));
    let endpoints = get("/metadata/endpoints?api-version=2015-01-01");
    let own = format!("http://{}/", server.address);
    assert_eq!(endpoints["authentication"]["audiences"][0], own, "{endpoints}");
    assert_eq!(endpoints["graphEndpoint"], own);
    let invalid = connection.request("GET", "/subscriptions/x?api-version=2016-06-01", None);
    assert_eq!(invalid.status, 400, "{invalid:?}");
}
