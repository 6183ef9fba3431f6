//! The stored form of actions.

use kalends_domain::{
    Action, BrokeredProperties, CertificateFacts, Headers, HttpAuthentication, HttpRequest,
    MessageFormat, Method, Secret, ServiceBusAuthentication, ServiceBusAuthenticationKind,
    ServiceBusMessage, StorageQueueMessage, Target, TimeToLive, Transport, Uri,
};
use kalends_recurrence::Instant;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::DefinitionCodec;
use crate::stored_form::recurrence::{DurationForm, instant};
use crate::stored_form::text::Text;

/// Where an action stands, and who seals for it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) codec: &'a DefinitionCodec,
    pub(crate) uid: JobUid,
    pub(crate) prefix: &'static str,
}

impl Place<'_> {
    fn path(&self, member: &str) -> String {
        format!("{}.{member}", self.prefix)
    }

    fn seal(&self, member: &str, secret: &Option<Secret>) -> Result<Option<Text>, StoreError> {
        let seal = |secret: &Secret| self.codec.seal(self.uid, &self.path(member), secret.reveal());
        secret.as_ref().map(seal).transpose()
    }

    fn open(&self, member: &str, text: Option<Text>) -> Result<Option<Secret>, StoreError> {
        text.map(|text| self.codec.open_secret(self.uid, &self.path(member), text)).transpose()
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ActionForm {
    /// As it was written.
    r#type: String,
    target: TargetForm,
}

#[derive(Serialize, Deserialize)]
enum TargetForm {
    Http(HttpForm),
    StorageQueue(StorageQueueForm),
    ServiceBusQueue(ServiceBusForm),
    ServiceBusTopic(ServiceBusForm),
}

#[derive(Serialize, Deserialize)]
struct HttpForm {
    uri: Text,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<(String, Text)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<AuthenticationForm>,
}

#[derive(Serialize, Deserialize)]
enum AuthenticationForm {
    Basic {
        username: Option<String>,
        password: Option<Text>,
    },
    ClientCertificate {
        pfx: Option<Text>,
        password: Option<Text>,
        /// Thumbprint, expiration, subject name.
        certificate: Option<(String, i64, String)>,
    },
    ActiveDirectoryOAuth {
        tenant: Option<String>,
        audience: Option<String>,
        client_id: Option<String>,
        secret: Option<Text>,
    },
}

#[derive(Serialize, Deserialize)]
struct StorageQueueForm {
    account: Option<String>,
    queue: Option<String>,
    sas_token: Option<Text>,
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<bool>,
}

#[derive(Serialize, Deserialize)]
struct ServiceBusForm {
    entity: Option<String>,
    namespace: Option<String>,
    transport: Option<TransportForm>,
    authentication: Option<ServiceBusAuthenticationForm>,
    message: Option<String>,
    brokered: Option<BrokeredForm>,
    custom: Option<Vec<(String, String)>>,
}

#[derive(Serialize, Deserialize)]
enum TransportForm {
    NotSpecified,
    NetMessaging,
    Amqp,
}

#[derive(Serialize, Deserialize)]
struct ServiceBusAuthenticationForm {
    /// Whether a shared access key; absent where the kind was not written.
    shared_access_key: Option<bool>,
    sas_key_name: Option<String>,
    sas_key: Option<Text>,
}

#[derive(Serialize, Deserialize)]
struct BrokeredForm {
    content_type: Option<String>,
    correlation_id: Option<String>,
    force_persistence: Option<bool>,
    label: Option<String>,
    message_id: Option<String>,
    partition_key: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    scheduled_enqueue_time_utc: Option<i64>,
    session_id: Option<String>,
    live_for: Option<DurationForm>,
    live_until: Option<i64>,
    to: Option<String>,
    via_partition_key: Option<String>,
}

impl ActionForm {
    pub(crate) fn write(action: &Action, place: Place<'_>) -> Result<ActionForm, StoreError> {
        let target = match &action.target {
            Target::Http(request) => TargetForm::Http(write_http(request, place)?),
            Target::StorageQueue(message) => TargetForm::StorageQueue(StorageQueueForm {
                account: message.storage_account.clone(),
                queue: message.queue_name.clone(),
                sas_token: place.seal("queueMessage.sasToken", &message.sas_token)?,
                message: message.message.clone(),
                raw: match message.format {
                    MessageFormat::Unset => None,
                    MessageFormat::Envelope => Some(false),
                    MessageFormat::Raw => Some(true),
                },
            }),
            Target::ServiceBusQueue(message) => {
                TargetForm::ServiceBusQueue(write_service_bus(message, place)?)
            }
            Target::ServiceBusTopic(message) => {
                TargetForm::ServiceBusTopic(write_service_bus(message, place)?)
            }
        };
        Ok(ActionForm { r#type: action.type_as_written.clone(), target })
    }

    pub(crate) fn read(self, place: Place<'_>) -> Result<Action, StoreError> {
        let target = match self.target {
            TargetForm::Http(form) => Target::Http(read_http(form, place)?),
            TargetForm::StorageQueue(form) => Target::StorageQueue(StorageQueueMessage {
                storage_account: form.account,
                queue_name: form.queue,
                sas_token: place.open("queueMessage.sasToken", form.sas_token)?,
                message: form.message,
                format: match form.raw {
                    None => MessageFormat::Unset,
                    Some(false) => MessageFormat::Envelope,
                    Some(true) => MessageFormat::Raw,
                },
            }),
            TargetForm::ServiceBusQueue(form) => {
                Target::ServiceBusQueue(read_service_bus(form, place)?)
            }
            TargetForm::ServiceBusTopic(form) => {
                Target::ServiceBusTopic(read_service_bus(form, place)?)
            }
        };
        Ok(Action { type_as_written: self.r#type, target })
    }
}

fn write_http(request: &HttpRequest, place: Place<'_>) -> Result<HttpForm, StoreError> {
    let header = |(name, value): (&str, &str)| {
        let text = place.codec.header(place.uid, &place.path("request.headers"), name, value)?;
        Ok((name.to_owned(), text))
    };
    let headers = |headers: &Headers| headers.iter().map(header).collect::<Result<_, StoreError>>();
    let member = |name: &str| format!("request.authentication.{name}");
    let authentication = match &request.authentication {
        None => None,
        Some(HttpAuthentication::Basic { username, password }) => Some(AuthenticationForm::Basic {
            username: username.clone(),
            password: place.seal(&member("password"), password)?,
        }),
        Some(HttpAuthentication::ClientCertificate { pfx, password, certificate }) => {
            let facts = |facts: &CertificateFacts| {
                (facts.thumbprint.clone(), facts.expiration.ticks(), facts.subject_name.clone())
            };
            Some(AuthenticationForm::ClientCertificate {
                pfx: place.seal(&member("pfx"), pfx)?,
                password: place.seal(&member("password"), password)?,
                certificate: certificate.as_ref().map(facts),
            })
        }
        Some(HttpAuthentication::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) => {
            Some(AuthenticationForm::ActiveDirectoryOAuth {
                tenant: tenant.clone(),
                audience: audience.clone(),
                client_id: client_id.clone(),
                secret: place.seal(&member("secret"), secret)?,
            })
        }
    };
    let uri = place.codec.address(place.uid, &place.path("request.uri"), request.uri.as_str())?;
    Ok(HttpForm {
        uri,
        method: request.method.as_str().to_owned(),
        headers: request.headers.as_ref().map(headers).transpose()?,
        body: request.body.clone(),
        authentication,
    })
}

fn read_http(form: HttpForm, place: Place<'_>) -> Result<HttpRequest, StoreError> {
    let header = |(name, text): (String, Text)| {
        let member = format!("{}.{}", place.path("request.headers"), name.to_ascii_lowercase());
        let value = place.codec.open(place.uid, &member, text)?;
        Ok((name, value))
    };
    let headers = |list: Vec<(String, Text)>| list.into_iter().map(header).collect();
    let headers: Option<Result<_, StoreError>> = form.headers.map(headers);
    let member = |name: &str| format!("request.authentication.{name}");
    let authentication = match form.authentication {
        None => None,
        Some(AuthenticationForm::Basic { username, password }) => Some(HttpAuthentication::Basic {
            username,
            password: place.open(&member("password"), password)?,
        }),
        Some(AuthenticationForm::ClientCertificate { pfx, password, certificate }) => {
            let facts = |(thumbprint, expiration, subject_name)| {
                Ok::<_, StoreError>(CertificateFacts {
                    thumbprint,
                    expiration: instant(expiration)?,
                    subject_name,
                })
            };
            Some(HttpAuthentication::ClientCertificate {
                pfx: place.open(&member("pfx"), pfx)?,
                password: place.open(&member("password"), password)?,
                certificate: certificate.map(facts).transpose()?,
            })
        }
        Some(AuthenticationForm::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) => {
            Some(HttpAuthentication::ActiveDirectoryOAuth {
                tenant,
                audience,
                client_id,
                secret: place.open(&member("secret"), secret)?,
            })
        }
    };
    Ok(HttpRequest {
        uri: Uri::restore(place.codec.open(place.uid, &place.path("request.uri"), form.uri)?),
        method: Method::restore(form.method),
        headers: headers.transpose()?.map(Headers::restore),
        body: form.body,
        authentication,
    })
}

const SAS_KEY: &str = "serviceBusMessage.authentication.sasKey";

fn write_service_bus(
    message: &ServiceBusMessage,
    place: Place<'_>,
) -> Result<ServiceBusForm, StoreError> {
    let authentication = |authentication: &ServiceBusAuthentication| {
        Ok::<_, StoreError>(ServiceBusAuthenticationForm {
            shared_access_key: authentication
                .kind
                .map(|kind| kind == ServiceBusAuthenticationKind::SharedAccessKey),
            sas_key_name: authentication.sas_key_name.clone(),
            sas_key: place.seal(SAS_KEY, &authentication.sas_key)?,
        })
    };
    Ok(ServiceBusForm {
        entity: message.entity.clone(),
        namespace: message.namespace.clone(),
        transport: message.transport.map(|transport| match transport {
            Transport::NotSpecified => TransportForm::NotSpecified,
            Transport::NetMessaging => TransportForm::NetMessaging,
            Transport::Amqp => TransportForm::Amqp,
        }),
        authentication: message.authentication.as_ref().map(authentication).transpose()?,
        message: message.message.clone(),
        brokered: message.brokered.as_ref().map(write_brokered),
        custom: message.custom.clone(),
    })
}

fn read_service_bus(
    form: ServiceBusForm,
    place: Place<'_>,
) -> Result<ServiceBusMessage, StoreError> {
    let authentication = |form: ServiceBusAuthenticationForm| {
        Ok::<_, StoreError>(ServiceBusAuthentication {
            kind: form.shared_access_key.map(|shared| match shared {
                true => ServiceBusAuthenticationKind::SharedAccessKey,
                false => ServiceBusAuthenticationKind::NotSpecified,
            }),
            sas_key_name: form.sas_key_name,
            sas_key: place.open(SAS_KEY, form.sas_key)?,
        })
    };
    Ok(ServiceBusMessage {
        entity: form.entity,
        namespace: form.namespace,
        transport: form.transport.map(|transport| match transport {
            TransportForm::NotSpecified => Transport::NotSpecified,
            TransportForm::NetMessaging => Transport::NetMessaging,
            TransportForm::Amqp => Transport::Amqp,
        }),
        authentication: form.authentication.map(authentication).transpose()?,
        message: form.message,
        brokered: form.brokered.map(read_brokered).transpose()?,
        custom: form.custom,
    })
}

fn write_brokered(properties: &BrokeredProperties) -> BrokeredForm {
    let (live_for, live_until) = match &properties.time_to_live {
        None => (None, None),
        Some(TimeToLive::For(duration)) => (Some(DurationForm::from(duration)), None),
        Some(TimeToLive::Until(until)) => (None, Some(until.ticks())),
    };
    BrokeredForm {
        content_type: properties.content_type.clone(),
        correlation_id: properties.correlation_id.clone(),
        force_persistence: properties.force_persistence,
        label: properties.label.clone(),
        message_id: properties.message_id.clone(),
        partition_key: properties.partition_key.clone(),
        reply_to: properties.reply_to.clone(),
        reply_to_session_id: properties.reply_to_session_id.clone(),
        scheduled_enqueue_time_utc: properties.scheduled_enqueue_time_utc.map(Instant::ticks),
        session_id: properties.session_id.clone(),
        live_for,
        live_until,
        to: properties.to.clone(),
        via_partition_key: properties.via_partition_key.clone(),
    }
}

fn read_brokered(form: BrokeredForm) -> Result<BrokeredProperties, StoreError> {
    let live_until = form.live_until.map(instant).transpose()?.map(TimeToLive::Until);
    Ok(BrokeredProperties {
        content_type: form.content_type,
        correlation_id: form.correlation_id,
        force_persistence: form.force_persistence,
        label: form.label,
        message_id: form.message_id,
        partition_key: form.partition_key,
        reply_to: form.reply_to,
        reply_to_session_id: form.reply_to_session_id,
        scheduled_enqueue_time_utc: form.scheduled_enqueue_time_utc.map(instant).transpose()?,
        session_id: form.session_id,
        time_to_live: form.live_for.map(|form| TimeToLive::For(form.into())).or(live_until),
        to: form.to,
        via_partition_key: form.via_partition_key,
    })
}
