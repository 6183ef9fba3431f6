//! Whatever a service sends as its refusal, reading it ends, and gives no more than was sent.

use kalends_actions::parse_service_error;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const PIECES: [&str; 16] = [
    "<Error>",
    "</Error>",
    "<Code>",
    "</Code>",
    "<Message>",
    "</Message>",
    "<a/>",
    "<?x?>",
    "<!",
    "&amp;",
    "&x;",
    "&",
    ">",
    "text",
    " ",
    "\u{feff}",
];

proptest! {
    #[test]
    fn any_pieces_are_read_or_refused(pieces in vec(select(&PIECES[..]), 0..40)) {
        let text = pieces.concat();
        if let Ok(refusal) = parse_service_error(text.as_bytes()) {
            for said in [refusal.code, refusal.message].into_iter().flatten() {
                prop_assert!(said.len() <= text.len());
            }
        }
    }

    #[test]
    fn what_is_written_plainly_is_read_back(plain in "[^<&\u{feff}]{1,40}") {
        let refusal = parse_service_error(format!("<Error><Code>{plain}</Code></Error>").as_bytes());
        prop_assert_eq!(refusal.unwrap().code, Some(plain.trim().to_owned()));
    }
}
