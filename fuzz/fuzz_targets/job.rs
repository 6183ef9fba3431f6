//! Any bytes as a job's body, in every version: what is read is written so that it is read the same
//! again, and what is refused is refused with an answer.

#![no_main]

use kalends_domain::Limits;
use kalends_wire::{Json, Version, merge_patch, read_job, job_with_secrets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok(body) = Json::parse(body) else { return };
    let limits = Limits::default();
    // What is read may be a little longer when it is written.
    let roomy = Limits { job_bytes_max: usize::MAX, ..Limits::default() };
    for version in Version::ALL {
        match read_job(&body, version, &limits) {
            Ok(job) => {
                let written = job_with_secrets(&job, version);
                assert_eq!(read_job(&written, version, &roomy).as_ref(), Ok(&job));
                let patched = merge_patch(written, body.clone(), version);
                let _ = read_job(&patched, version, &roomy);
            }
            Err(errors) => assert_eq!(errors.response(version).0, 400),
        }
    }
});
