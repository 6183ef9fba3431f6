//! Where an answer leads. Pure.

use kalends_domain::{Limits, Uri};
use url::Url;

use super::message::Message;
use crate::client::Answer;

/// Redirects that are followed.
pub(super) const HOPS_MAX: usize = 10;

/// What becomes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the answer.
    Stay,
    /// It leads on.
    Go(Hop),
    /// It leads where nothing is sent.
    Refuse(String),
}

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) to: Url,
    pub(super) method: MethodAfter,
    pub(super) body: BodyAfter,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MethodAfter {
    Same,
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyAfter {
    Kept,
    Dropped,
}

/// Whether scheme, host and port stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Same,
    Other,
}

/// What becomes of the answer to a message that was sent to `from` after `hop` redirects.
pub(super) fn step(from: &Url, message: &Message, answer: &Answer, hop: usize) -> Step {
    let request = message.request();
    let has_body = !request.body.is_empty();
    decide(from, &request.method, has_body, answer.status, answer.headers.get("location"), hop)
}

fn decide(
    from: &Url,
    method: &str,
    has_body: bool,
    status: u16,
    location: Option<&str>,
    hop: usize,
) -> Step {
    let (method, body) = match (status, method) {
        (301 | 302, "POST") | (303, _) if method != "HEAD" => {
            (MethodAfter::Get, BodyAfter::Dropped)
        }
        (301 | 302 | 303 | 307 | 308, _) => (MethodAfter::Same, BodyAfter::Kept),
        _ => return Step::Stay,
    };
    let Some(location) = location else { return Step::Stay };
    if hop >= HOPS_MAX {
        return Step::Refuse(format!("more than {HOPS_MAX} redirects"));
    }
    let to = match join(from, location) {
        Ok(to) => to,
        Err(why) => return Step::Refuse(why),
    };
    if from.scheme() == "https" && to.scheme() != "https" {
        return Step::Refuse("it leads from https to http".into());
    }
    let origin = if from.origin() == to.origin() { Origin::Same } else { Origin::Other };
    if origin == Origin::Other && body == BodyAfter::Kept && has_body {
        return Step::Refuse("it leads to another host and asks for the body again".into());
    }
    Step::Go(Hop { to, method, body, origin })
}

/// The address that a location means, held to the rules of every address of a job.
fn join(from: &Url, location: &str) -> Result<Url, String> {
    // The parser drops or rewrites these.
    if location.contains(|c: char| c.is_control() || c == '\\' || c == '\u{ad}') {
        return Err("its location cannot be read".into());
    }
    let to = from.join(location.trim()).map_err(|_| "its location cannot be read")?;
    let checked = Uri::new(to.as_str(), &Limits::default());
    checked.map_err(|fault| format!("its location is not allowed: {}", fault.message))?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(from: &str, request: (&str, bool), answer: (u16, &str)) -> Step {
        decide(&Url::parse(from).unwrap(), request.0, request.1, answer.0, Some(answer.1), 0)
    }

    fn hop(to: &str, method: MethodAfter, body: BodyAfter, origin: Origin) -> Step {
        Step::Go(Hop { to: Url::parse(to).unwrap(), method, body, origin })
    }

    const A: &str = "https://a.test/x";

    #[test]
    fn methods_change_as_in_browsers() {
        use BodyAfter::{Dropped, Kept};
        use MethodAfter::{Get, Same};
        for (status, method, after, body) in [
            (301, "POST", Get, Dropped),
            (302, "POST", Get, Dropped),
            (303, "POST", Get, Dropped),
            (303, "PUT", Get, Dropped),
            (303, "HEAD", Same, Kept),
            (301, "GET", Same, Kept),
            (302, "PUT", Same, Kept),
            (307, "POST", Same, Kept),
            (308, "POST", Same, Kept),
        ] {
            let step = go(A, (method, true), (status, "/y?z=1#f"));
            let expected = hop("https://a.test/y?z=1#f", after, body, Origin::Same);
            assert_eq!(step, expected, "{status} {method}");
        }
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        let to = |from: &str, location: &str| match go(from, ("GET", false), (302, location)) {
            Step::Go(hop) => Some(hop.origin),
            _ => None,
        };
        assert_eq!(to(A, "https://A.test:443/"), Some(Origin::Same));
        assert_eq!(to(A, "https://a.test:444/"), Some(Origin::Other));
        assert_eq!(to(A, "//b.test/"), Some(Origin::Other));
        assert_eq!(to("http://a.test/", "https://a.test/"), Some(Origin::Other));
        assert_eq!(to(A, "http://a.test/"), None, "from https to http");
    }

    #[test]
    fn what_could_leak_or_mislead_is_refused() {
        for (request, answer) in [
            (("POST", true), (307, "https://b.test/")),
            (("POST", true), (308, "https://b.test/")),
            (("PUT", true), (302, "https://b.test/")),
            (("GET", false), (302, "http://a.test/")),
            (("GET", false), (302, "file:///etc/passwd")),
            (("GET", false), (302, "javascript:alert(1)")),
            (("GET", false), (302, "https://user:pw@b.test/")),
            (("GET", false), (302, "https://b.test\\@a.test/")),
            (("GET", false), (302, "https://b.test:0/")),
            (("GET", false), (302, "https://b\u{ad}.test/")),
            (("GET", false), (302, "https://")),
        ] {
            assert!(matches!(go(A, request, answer), Step::Refuse(_)), "{request:?} {answer:?}");
        }
        assert!(matches!(go(A, ("POST", false), (307, "https://b.test/")), Step::Go(_)));
    }

    #[test]
    fn other_answers_stay() {
        for status in [200, 202, 300, 304, 305, 306, 404, 500] {
            assert_eq!(go(A, ("GET", false), (status, "/y")), Step::Stay, "{status}");
        }
        let url = Url::parse(A).unwrap();
        assert_eq!(decide(&url, "GET", false, 302, None, 0), Step::Stay);
        assert!(matches!(decide(&url, "GET", false, 302, Some("/"), 10), Step::Refuse(_)));
    }
}
