//! Keeps secrets out of what others say: a service may repeat in its answer what it was sent.

use kalends_domain::Secret;

use crate::signature::encoded;

/// Characters of a service's own words that history keeps.
const CHARS_KEPT: usize = 1_024;
/// A shorter text is no secret, and hiding it would make a riddle of every sentence.
const SECRET_CHARS_MIN: usize = 4;

/// What a service said, short, on one line, and without the secrets it was sent.
pub(crate) fn conceal(text: &str, secrets: &[&Secret]) -> String {
    let mut words = text.to_owned();
    for secret in secrets.iter().map(|secret| secret.reveal()) {
        for form in [secret, &encoded(secret)] {
            if form.len() >= SECRET_CHARS_MIN {
                words = words.replace(form, "[secret]");
            }
        }
    }
    let words = without_signatures(&words);
    let line = words.split(char::is_control).filter(|part| !part.is_empty());
    line.collect::<Vec<_>>().join(" ").chars().take(CHARS_KEPT).collect()
}

/// A signature opens what it signs for as long as it is good, so it is a secret too.
fn without_signatures(text: &str) -> String {
    let mut parts = text.split("sig=");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || "&'\"<>;,".contains(c));
        let (_, after) = part.split_at(end.unwrap_or(part.len()));
        words.push_str("sig=[secret]");
        words.push_str(after);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_secret_is_hidden_in_each_of_its_forms() {
        let secret = Secret::new("canary+/=".to_owned());
        let said = "bad key canary+/=\r\nsent as canary%2B%2F%3D\0!";
        assert_eq!(conceal(said, &[&secret]), "bad key [secret] sent as [secret] !");
        let token = "bad 'SharedAccessSignature sr=x&sig=canary%3D&se=1' and sig=b";
        let hidden = "bad 'SharedAccessSignature sr=x&sig=[secret]&se=1' and sig=[secret]";
        assert_eq!(conceal(token, &[]), hidden);
        assert_eq!(conceal("abc", &[&Secret::new("b".to_owned())]), "abc");
        assert_eq!(conceal(&"x".repeat(2_000), &[]).len(), CHARS_KEPT);
    }
}
