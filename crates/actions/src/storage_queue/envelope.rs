//! The XML in which the retired service wrapped the text of a queue message.
//!
//! It says `utf-16` because the service wrote it from a text in memory; on the wire it is UTF-8 in
//! base64, and consumers read it as a text. Lines end and are indented as they were.

use kalends_recurrence::Instant;

/// What an envelope says.
pub(super) struct Envelope<'a> {
    pub(super) tag: &'a str,
    pub(super) request_id: &'a str,
    pub(super) expected: Instant,
    pub(super) job: &'a str,
    pub(super) collection: &'a str,
    pub(super) region: &'a str,
    pub(super) text: &'a str,
}

impl Envelope<'_> {
    /// The envelope, where XML can hold the text.
    pub(super) fn write(&self) -> Result<String, String> {
        let expected = self.expected.to_string();
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"utf-16\"?>\r\n<StorageQueueMessage \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\r\n",
        );
        for (name, value) in [
            ("ExecutionTag", self.tag),
            ("ClientRequestId", self.request_id),
            ("ExpectedExecutionTime", expected.trim_end_matches('Z')),
            ("SchedulerJobId", self.job),
            ("SchedulerJobCollectionId", self.collection),
            ("Region", self.region),
            ("Message", self.text),
        ] {
            xml.push_str(&format!("  <{name}>{}</{name}>\r\n", escaped(value)?));
        }
        xml.push_str("</StorageQueueMessage>");
        Ok(xml)
    }
}

fn escaped(text: &str) -> Result<String, String> {
    let mut xml = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            // Readers would make a line feed of it.
            '\r' => xml.push_str("&#xD;"),
            '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'.. => xml.push(letter),
            _ => {
                return Err("the message has characters that XML cannot hold; \
                            messageFormat Raw sends it as it is"
                    .into());
            }
        }
    }
    Ok(xml)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(text: &str) -> Result<String, String> {
        Envelope {
            tag: "0123456789abcdef0123456789abcdef",
            request_id: "01234567-89ab-cdef-0123-456789abcdef",
            expected: "2015-09-10T00:00:00Z".parse().unwrap(),
            job: "job",
            collection: "collection",
            region: "West Europe",
            text,
        }
        .write()
    }

    #[test]
    fn the_envelope_is_the_one_that_consumers_parse() {
        let expected = [
            "<?xml version=\"1.0\" encoding=\"utf-16\"?>",
            "<StorageQueueMessage xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">",
            "  <ExecutionTag>0123456789abcdef0123456789abcdef</ExecutionTag>",
            "  <ClientRequestId>01234567-89ab-cdef-0123-456789abcdef</ClientRequestId>",
            "  <ExpectedExecutionTime>2015-09-10T00:00:00</ExpectedExecutionTime>",
            "  <SchedulerJobId>job</SchedulerJobId>",
            "  <SchedulerJobCollectionId>collection</SchedulerJobCollectionId>",
            "  <Region>West Europe</Region>",
            "  <Message>a &lt;b&gt; &amp; \"c\" ü&#xD;\n</Message>",
            "</StorageQueueMessage>",
        ];
        assert_eq!(envelope("a <b> & \"c\" ü\r\n").unwrap(), expected.join("\r\n"));
    }

    #[test]
    fn what_xml_cannot_hold_is_not_sent_as_something_else() {
        for text in ["\u{1}", "\0", "\u{ffff}", "\u{1b}[0m"] {
            assert!(envelope(text).unwrap_err().contains("messageFormat Raw"), "{text:?}");
        }
        assert!(envelope("\t\n\u{85}\u{1f600}").is_ok());
    }
}
