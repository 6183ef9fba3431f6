//! The members of every object in a request body.
//!
//! One table serves three purposes: the newest version rejects members that are not in it, an error
//! names the nearest member, and the error of a value of another type lists the members of the object
//! that it must be. Readers look members up by name, so a member that is missing here is rejected
//! before it is read.

use crate::version::Version;

/// The members of an object.
pub(crate) struct Shape {
    pub(crate) own: &'static [Member],
    /// An object whose members this one has too.
    pub(crate) base: Option<&'static Shape>,
}

/// A member of an object.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) contents: Contents,
    pub(crate) access: Access,
}

/// The value of a member.
#[derive(Clone, Copy)]
pub(crate) enum Contents {
    /// A value that messages may quote.
    Value,
    /// A secret, or an object with arbitrary members that can be secrets. No message quotes it.
    Secret,
    /// An object, or a list of objects.
    Object(&'static Shape),
}

/// The clients that set a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Clients of every version.
    All,
    /// Clients of the newest version.
    Newest,
    /// Clients whose definitions place the member here; errors do not suggest it.
    Tolerated,
    /// The service. Clients send it back from a response.
    Ignored,
}

impl Shape {
    const fn of(own: &'static [Member]) -> Shape {
        Shape { own, base: None }
    }

    /// The member `name`, case-insensitively.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Member> {
        self.all().find(|member| member.name.eq_ignore_ascii_case(name))
    }

    /// The members that a client of `version` can set.
    pub(crate) fn settable(&self, version: Version) -> impl Iterator<Item = &'static Member> {
        self.all().filter(move |member| match member.access {
            Access::All => true,
            Access::Newest => !version.is_old(),
            Access::Tolerated | Access::Ignored => false,
        })
    }

    /// Whether the object can contain secrets at any depth.
    pub(crate) fn has_secrets(&self) -> bool {
        self.all().any(|member| match member.contents {
            Contents::Value => false,
            Contents::Secret => true,
            Contents::Object(shape) => shape.has_secrets(),
        })
    }

    fn all(&self) -> impl Iterator<Item = &'static Member> + use<> {
        self.base.map_or(&[][..], |base| base.own).iter().chain(self.own)
    }
}

impl Member {
    const fn new(name: &'static str, contents: Contents) -> Member {
        Member { name, contents, access: Access::All }
    }

    const fn newest(self) -> Member {
        Member { access: Access::Newest, ..self }
    }

    const fn tolerated(self) -> Member {
        Member { access: Access::Tolerated, ..self }
    }
}

const fn value(name: &'static str) -> Member {
    Member::new(name, Contents::Value)
}

const fn secret(name: &'static str) -> Member {
    Member::new(name, Contents::Secret)
}

const fn object(name: &'static str, shape: &'static Shape) -> Member {
    Member::new(name, Contents::Object(shape))
}

const fn ignored(name: &'static str) -> Member {
    Member { access: Access::Ignored, ..value(name) }
}

pub(crate) static JOB: Shape = Shape::of(&[
    object("properties", &PROPERTIES),
    ignored("id"),
    ignored("name"),
    ignored("type"),
]);

/// A job whose body is the value of `properties`.
pub(crate) static JOB_WITHOUT_PROPERTIES: Shape =
    Shape { own: &[ignored("id"), ignored("name"), ignored("type")], base: Some(&PROPERTIES) };

static PROPERTIES: Shape = Shape::of(&[
    value("description").newest(),
    value("tags").newest(),
    value("startTime"),
    object("action", &ACTION),
    object("recurrence", &RECURRENCE),
    object("missedRuns", &MISSED_RUNS).newest(),
    value("overlap").newest(),
    value("jitter").newest(),
    value("timeout").newest(),
    value("state"),
    object("retryPolicy", &RETRY_POLICY).tolerated(),
    object("errorAction", &ERROR_ACTION).tolerated(),
    ignored("status"),
]);

/// A line of `kalends next --jsonl`, or a job.
pub(crate) static NEXT_REQUEST: Shape = Shape {
    own: &[
        value("createdAt"),
        value("after"),
        value("limit"),
        object("properties", &PROPERTIES).tolerated(),
    ],
    base: Some(&PROPERTIES),
};

static RECURRENCE: Shape = Shape::of(&[
    value("frequency"),
    value("interval"),
    value("count"),
    value("endTime"),
    value("cron").newest(),
    value("timeZone").newest(),
    value("firstDayOfWeek").newest(),
    object("schedule", &SCHEDULE),
]);

static SCHEDULE: Shape = Shape::of(&[
    value("minutes"),
    value("hours"),
    value("weekDays"),
    value("monthDays"),
    object("monthlyOccurrences", &MONTHLY_OCCURRENCE),
    value("months"),
]);

static MONTHLY_OCCURRENCE: Shape = Shape::of(&[value("day"), value("occurrence")]);

static MISSED_RUNS: Shape = Shape::of(&[value("policy"), value("within")]);

static ACTION: Shape = Shape {
    own: &[object("errorAction", &ERROR_ACTION), value("signing").newest()],
    base: Some(&TARGET),
};

static ERROR_ACTION: Shape = Shape {
    // Its reader explains that an error action has none.
    own: &[secret("errorAction").tolerated()],
    base: Some(&TARGET),
};

/// Members of actions and error actions.
static TARGET: Shape = Shape::of(&[
    value("type"),
    object("request", &REQUEST),
    object("queueMessage", &QUEUE_MESSAGE),
    object("serviceBusQueueMessage", &SERVICE_BUS_QUEUE_MESSAGE),
    object("serviceBusTopicMessage", &SERVICE_BUS_TOPIC_MESSAGE),
    object("retryPolicy", &RETRY_POLICY),
]);

static RETRY_POLICY: Shape = Shape::of(&[
    value("retryType"),
    value("retryInterval"),
    value("retryCount"),
    value("maxInterval").newest(),
    value("maxAge").newest(),
]);

static REQUEST: Shape = Shape::of(&[
    value("uri"),
    value("method"),
    secret("headers"),
    secret("body"),
    object("authentication", &AUTHENTICATION),
    object("retryPolicy", &RETRY_POLICY).tolerated(),
]);

static AUTHENTICATION: Shape = Shape::of(&[
    value("type"),
    value("username"),
    secret("password"),
    secret("pfx"),
    value("tenant"),
    value("audience"),
    value("clientId"),
    secret("secret"),
    ignored("certificateThumbprint"),
    ignored("certificateExpiration"),
    ignored("certificateExpirationDate"),
    ignored("certificateSubjectName"),
]);

static QUEUE_MESSAGE: Shape = Shape::of(&[
    value("storageAccount"),
    value("queueName"),
    secret("sasToken"),
    secret("message"),
    value("messageFormat").newest(),
]);

static SERVICE_BUS_QUEUE_MESSAGE: Shape =
    Shape { own: &[value("queueName")], base: Some(&SERVICE_BUS_MESSAGE) };

static SERVICE_BUS_TOPIC_MESSAGE: Shape =
    Shape { own: &[value("topicPath")], base: Some(&SERVICE_BUS_MESSAGE) };

/// Members of messages to queues and topics.
static SERVICE_BUS_MESSAGE: Shape = Shape::of(&[
    value("namespace"),
    value("transportType"),
    object("authentication", &SERVICE_BUS_AUTHENTICATION),
    secret("message"),
    object("brokeredMessageProperties", &BROKERED_PROPERTIES),
    secret("customMessageProperties"),
]);

static SERVICE_BUS_AUTHENTICATION: Shape =
    Shape::of(&[value("type"), value("sasKeyName"), secret("sasKey")]);

static BROKERED_PROPERTIES: Shape = Shape::of(&[
    value("contentType"),
    value("correlationId"),
    value("forcePersistence"),
    value("label"),
    value("messageId"),
    value("partitionKey"),
    value("replyTo"),
    value("replyToSessionId"),
    value("scheduledEnqueueTimeUtc"),
    value("sessionId"),
    value("timeToLive"),
    value("to"),
    value("viaPartitionKey"),
]);

pub(crate) static COLLECTION: Shape = Shape::of(&[
    value("location"),
    value("tags"),
    object("properties", &COLLECTION_PROPERTIES),
    ignored("id"),
    ignored("name"),
    ignored("type"),
]);

static COLLECTION_PROPERTIES: Shape =
    Shape::of(&[object("sku", &SKU), value("state"), object("quota", &QUOTA)]);

static SKU: Shape = Shape::of(&[value("name")]);

static QUOTA: Shape = Shape::of(&[
    value("maxJobCount"),
    object("maxRecurrence", &MAX_RECURRENCE),
    ignored("maxJobOccurrence"),
]);

static MAX_RECURRENCE: Shape = Shape::of(&[value("frequency"), value("interval")]);

pub(crate) static GROUP: Shape = Shape::of(&[
    value("location"),
    value("tags"),
    ignored("id"),
    ignored("name"),
    ignored("type"),
    // Its only member is `provisioningState`.
    ignored("properties"),
]);

pub(crate) static BULK_PREVIEW: Shape = Shape::of(&[object("jobs", &BULK_PREVIEW_JOB)]);

static BULK_PREVIEW_JOB: Shape = Shape::of(&[value("name"), value("definition")]);

pub(crate) static PAUSE: Shape = Shape::of(&[value("reason"), value("until")]);

pub(crate) static BULK_EDIT: Shape = Shape::of(&[value("action"), value("names"), value("filter")]);
