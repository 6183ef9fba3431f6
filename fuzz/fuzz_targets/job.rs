//! Reads arbitrary bytes as the body of a job, in every API version. A valid job must survive
//! serialising and reading; an invalid one must produce an error response with status 400.

#![no_main]

use kalends_domain::Limits;
use kalends_wire::{Json, Version, job_with_secrets, merge_patch, read_job};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok(body) = Json::parse(body) else { return };
    let limits = Limits::default();
    // The serialised form may be slightly longer than the body.
    let unlimited = Limits { job_bytes_max: usize::MAX, ..Limits::default() };
    for version in Version::ALL {
        match read_job(&body, version, &limits) {
            Ok(job) => {
                let written = job_with_secrets(&job, version);
                assert_eq!(read_job(&written, version, &unlimited).as_ref(), Ok(&job));
                let patched = merge_patch(written, body.clone(), version);
                let _ = read_job(&patched, version, &unlimited);
            }
            Err(errors) => assert_eq!(errors.response(version).0, 400),
        }
    }
});
