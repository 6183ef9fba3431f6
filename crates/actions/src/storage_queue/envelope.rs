//! The XML in which the retired service wrapped the text of a queue message.
//!
//! The declaration says `utf-16` because .NET serialised a string in memory; on the wire it is UTF-8
//! in base64, and consumers parse it as a string. Line ends and indentation are unchanged.

use kalends_recurrence::Instant;

use super::error::StorageQueueError;

/// The fields of an envelope.
pub(super) struct Envelope<'a> {
    pub(super) idempotency_key: &'a str,
    pub(super) request_id: &'a str,
    pub(super) expected: Instant,
    pub(super) job: &'a str,
    pub(super) collection: &'a str,
    pub(super) region: &'a str,
    pub(super) text: &'a str,
}

impl Envelope<'_> {
    /// Serialises the envelope. Fails if the message has characters that XML does not allow.
    pub(super) fn write(&self) -> Result<String, StorageQueueError> {
        let expected = self.expected.to_string();
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"utf-16\"?>\r\n<StorageQueueMessage \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\r\n",
        );
        for (name, value) in [
            ("ExecutionTag", self.idempotency_key),
            ("ClientRequestId", self.request_id),
            ("ExpectedExecutionTime", expected.trim_end_matches('Z')),
            ("SchedulerJobId", self.job),
            ("SchedulerJobCollectionId", self.collection),
            ("Region", self.region),
            ("Message", self.text),
        ] {
            xml.push_str(&format!("  <{name}>{}</{name}>\r\n", escape(value)?));
        }
        xml.push_str("</StorageQueueMessage>");
        Ok(xml)
    }
}

fn escape(text: &str) -> Result<String, StorageQueueError> {
    let mut xml = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            // XML parsers would normalise it to a line feed.
            '\r' => xml.push_str("&#xD;"),
            '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'.. => xml.push(letter),
            _ => return Err(StorageQueueError::NotXml),
        }
    }
    Ok(xml)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(text: &str) -> Result<String, StorageQueueError> {
        Envelope {
            idempotency_key: "0123456789abcdef0123456789abcdef",
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
    fn the_envelope_has_the_format_of_the_retired_service() {
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
    fn messages_with_characters_that_xml_does_not_allow_are_refused() {
        for text in ["\u{1}", "\0", "\u{ffff}", "\u{1b}[0m"] {
            assert!(
                envelope(text).unwrap_err().to_string().contains("messageFormat Raw"),
                "{text:?}"
            );
        }
        assert!(envelope("\t\n\u{85}\u{1f600}").is_ok());
    }
}
