//! Properties of the parser of service errors: it terminates and returns no more than its input.

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
    fn any_input_is_parsed_or_refused(pieces in vec(select(&PIECES[..]), 0..40)) {
        let text = pieces.concat();
        if let Ok(error) = parse_service_error(text.as_bytes()) {
            for part in [error.code, error.message].into_iter().flatten() {
                prop_assert!(part.len() <= text.len());
            }
        }
    }

    #[test]
    fn text_without_markup_is_parsed_unchanged(plain in "[^<&\u{feff}]{1,40}") {
        let error = parse_service_error(format!("<Error><Code>{plain}</Code></Error>").as_bytes());
        prop_assert_eq!(error.unwrap().code, Some(plain.trim().to_owned()));
    }
}
