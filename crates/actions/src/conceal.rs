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
    let line = words.split(char::is_control).filter(|part| !part.is_empty());
    line.collect::<Vec<_>>().join(" ").chars().take(CHARS_KEPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_secret_is_hidden_in_each_of_its_forms() {
        let secret = Secret::new("canary+/=".to_owned());
        let said = "bad key canary+/=\r\nsent as canary%2B%2F%3D\0!";
        assert_eq!(conceal(said, &[&secret]), "bad key [secret] sent as [secret] !");
        assert_eq!(conceal("abc", &[&Secret::new("b".to_owned())]), "abc");
        assert_eq!(conceal(&"x".repeat(2_000), &[]).len(), CHARS_KEPT);
    }
}
