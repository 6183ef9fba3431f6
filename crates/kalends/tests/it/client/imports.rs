//! `kalends import`.

use super::User;
use crate::test_server::TestServer;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/import");

#[test]
fn imported_jobs_are_written_as_definitions_that_apply() {
    let server = TestServer::start();
    let user = User::of(&server).with("PASSWORD", "p").with("QUEUE_SASKEY", "k");
    let template = ["--url-template", "https://run.example.com/{name}?c={command}"];
    for (source, file, jobs) in [
        ("crontab", "user.crontab", 7),
        ("kubernetes", "cronjobs.yaml", 5),
        ("eventbridge", "cloudformation.yaml", 2),
        ("cloud-scheduler", "cloud-scheduler.json", 4),
        ("arm", "azuredeploy.json", 2),
    ] {
        let path = format!("{SAMPLES}/{file}");
        let import = ["import", source, &path, template[0], template[1]];
        let report = user.ok(&[&import[..], &["--collection", source, "-o", source]].concat());
        assert!(
            report.contains(&format!("{jobs} jobs, 0 with other runs than their source")),
            "{source}: {report}"
        );
        assert!(
            report.contains("      source                Kalends\n   1  20"),
            "{source}: {report}"
        );
        let applied = user.run(&["apply", "-f", source]);
        assert_eq!(applied.status, 0, "{source}: {applied:?}");
        assert!(applied.stdout.contains(&format!("{jobs} to create")), "{source}: {applied:?}");
        assert_eq!(user.run(&["diff", "-f", source]).status, 0, "{source}");
    }
}

#[test]
fn a_repeated_import_changes_nothing() {
    let server = TestServer::start();
    let user = User::of(&server).with("PASSWORD", "p").with("QUEUE_SASKEY", "k");
    let path = format!("{SAMPLES}/azuredeploy.json");
    let first = user.ok(&["import", "arm", &path, "--apply"]);
    assert!(first.contains("2 to create, 0 to change, 0 to delete, 0 unchanged"), "{first}");
    assert!(first.contains("once (") && first.contains("its time has passed"), "{first}");
    let second = user.ok(&["import", "arm", &path, "--apply"]);
    assert!(second.contains("0 to create, 0 to change, 0 to delete, 2 unchanged"), "{second}");
    let template = user.run(&["diff", "-f", &path]);
    assert_eq!(template.status, 0, "the template itself is a definition: {template:?}");
}

#[test]
fn jobs_that_run_a_command_need_a_url_template() {
    let user = User::new();
    let path = format!("{SAMPLES}/user.crontab");
    let report = user.ok(&["import", "crontab", &path]);
    assert!(report.contains("nightly") && report.contains("--url-template"), "{report}");
    assert!(
        report.ends_with("0 jobs, 0 with other runs than their source, 8 not carried over\n"),
        "{report}"
    );
    user.fails(&["import", "arm", "nothing.json"], 2, "nothing.json");
    let invalid = user.run(&["import", "crontab", &path, "--url-template", "https://x/{job}"]);
    assert!(invalid.stderr.contains("allowed are {name} and {command}"), "{invalid:?}");
}
